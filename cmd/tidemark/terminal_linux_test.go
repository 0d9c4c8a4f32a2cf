package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// session is a program on a terminal of its own.
type session struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	ended  chan error

	mu   sync.Mutex
	text string // what was shown since the last match
}

// onTerminal starts tidemark on a new pseudo-terminal of 80x24, with a home folder.
func onTerminal(t *testing.T, home string, args ...string) *session {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()
	cmd := exec.Command("tidemark", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+t.TempDir(), "TERM=xterm",
		"TIDEMARK_REPOSITORY=", "TZ=UTC")
	require.NoError(t, cmd.Start())
	s := &session{t: t, master: master, cmd: cmd, ended: make(chan error, 1)}
	go s.read()
	go func() { s.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = master.Close()
	})
	return s
}

func (s *session) read() {
	p := make([]byte, 4096)
	for {
		n, err := s.master.Read(p)
		s.mu.Lock()
		s.text += string(p[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits for a text that matches, and returns what was shown up to its end.
func (s *session) expect(pattern string) string {
	s.t.Helper()
	wanted := regexp.MustCompile(pattern)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		if at := wanted.FindStringIndex(s.text); at != nil {
			shown := s.text[:at[1]]
			s.text = s.text[at[1]:]
			s.mu.Unlock()
			return shown
		}
		shown := s.text
		s.mu.Unlock()
		require.True(s.t, time.Now().Before(limit), "no %q in %q", pattern, shown)
	}
}

// enter types a line.
func (s *session) enter(line string) {
	s.t.Helper()
	_, err := s.master.WriteString(line + "\n")
	require.NoError(s.t, err)
}

// end waits for the end of the program and returns its exit code.
func (s *session) end() int {
	s.t.Helper()
	select {
	case err := <-s.ended:
		if exit, ok := err.(*exec.ExitError); ok {
			return exit.ExitCode()
		}
		require.NoError(s.t, err)
		return 0
	case <-time.After(time.Minute):
		s.t.Fatal("the program does not end")
		return -1
	}
}

// questions answers those before the target with Enter or the given folder.
func (s *session) questions(folder, disk string) {
	s.t.Helper()
	s.expect("What to back up")
	s.expect("or type a folder: ")
	s.enter(folder + "/nosuch")
	s.expect("nosuch does not exist")
	s.expect("or type a folder: ")
	s.enter(folder)
	s.expect("Another folder .*: ")
	s.enter("")
	s.expect("Leave these out\\? \\[Y/n\\]: ")
	s.enter("")
	s.expect("Where to")
	s.expect("folder or address .*: ")
	s.enter(disk)
	s.expect("same disk as")
	s.expect("all the same\\? \\[y/N\\]: ")
	s.enter("y")
	s.expect("How gently")
	s.expect("Number or name \\[1\\]: ")
	s.enter("utility")
	s.expect("How often")
	s.expect("Number, time or schedule \\[hourly\\]: ")
	s.enter("3")
}

func TestSetupAtTerminal(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if _, err := exec.LookPath("tidemark"); err != nil {
		t.Skip("needs tidemark in PATH, which TestMain puts there")
	}
	home, source, disk := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(filepath.Join(source, "file"), []byte("content"), 0o600))
	option := filepath.Join(home, ".config/tidemark/tidemark.opt")

	// Interrupted at a question, it has made nothing.
	s := onTerminal(t, home, "setup")
	s.expect("or type a folder: ")
	_, err := s.master.Write([]byte{3}) // Ctrl-C
	require.NoError(t, err)
	require.Equal(t, 130, s.end())
	require.NoDirExists(t, filepath.Join(home, ".config"))

	// So has one whose input ends.
	s = onTerminal(t, home, "setup")
	s.expect("or type a folder: ")
	_, err = s.master.Write([]byte{4}) // Ctrl-D
	require.NoError(t, err)
	s.expect("the input ended without an answer")
	require.Equal(t, 1, s.end())
	require.NoDirExists(t, filepath.Join(home, ".config"))

	// Interrupted at the recovery key, the repository is there and the key unconfirmed.
	s = onTerminal(t, home, "setup")
	s.questions(source, disk)
	s.expect("target .* is (safe|degraded)")
	s.expect("New passphrase .*: ")
	s.enter("")
	first := s.expect("([0-9A-Z]{4}-){8}[0-9A-Z]{4}")
	s.expect("type its last group .*: ")
	_, err = s.master.Write([]byte{3})
	require.NoError(t, err)
	require.Equal(t, 130, s.end())
	require.FileExists(t, filepath.Join(disk, "config"))
	require.NoFileExists(t, option)

	// Run again, it keeps the repository, and makes a new recovery key for one that was not kept.
	s = onTerminal(t, home, "setup")
	s.questions(source, disk)
	s.expect("repository [0-9a-f]{8} exists: it is used")
	s.expect("shown earlier, and is not confirmed")
	s.expect("type its last group .*: ")
	s.enter("")
	s.expect("new recovery key now\\? \\[Y/n\\]: ")
	s.enter("")
	second := s.expect("([0-9A-Z]{4}-){8}[0-9A-Z]{4}")
	require.NotEqual(t, last(first), last(second))
	s.expect("type its last group .*: ")
	s.enter(last(first))
	s.expect("not the last group")
	s.expect("type its last group .*: ")
	s.enter(strings.ToLower(last(second)))
	s.expect("snapshot [0-9a-f]{8} saved")
	require.NotContains(t, s.expect("Setup is complete"), "not confirmed")
	s.expect("one file restored, equal to the original:")
	s.expect("file \\(7 B\\)")
	require.Equal(t, 0, s.end())
	content, err := os.ReadFile(option)
	require.NoError(t, err)
	require.Contains(t, string(content), "\nREPOSITORY "+disk+"\nPOLICY utility\nDOMAIN "+source+"\n")

	// The third time the proposals are the answers of the second, and a person decides about the option file.
	s = onTerminal(t, home, "setup")
	s.expect(regexp.QuoteMeta(source))
	s.expect("or type a folder: ")
	s.enter("")
	s.expect("folder or address .* \\[\\d\\]: ")
	s.enter("")
	s.expect("all the same\\? \\[y/N\\]: ")
	s.enter("y")
	s.expect("Number or name \\[4\\]: ")
	s.enter("throttle")
	s.expect("Number, time or schedule \\[hourly\\]: ")
	s.enter("3")
	s.expect("- POLICY utility\\s+\\+ POLICY throttle")
	s.expect("A copy is kept. \\[Y/n\\]: ")
	s.enter("n")
	s.expect("no backup is made")
	s.expect("Setup is complete")
	require.Equal(t, 0, s.end())
	now, err := os.ReadFile(option)
	require.NoError(t, err)
	require.Equal(t, string(content), string(now))
}

// last returns the last group of a recovery key at the end of a text.
func last(text string) string { return text[len(text)-4:] }

// A passphrase is typed once for the repository that is opened several times.
func TestSetupAsksForPassphraseOnce(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	home, source, disk := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(filepath.Join(source, "file"), []byte("content"), 0o600))
	args := []string{"setup", "--source", source, "--repo", disk, "--policy", "important", "--schedule", "never",
		"--exclude-caches=no"}
	for _, run := range []string{"New passphrase .*: ", "Passphrase or recovery key .*: "} {
		s := onTerminal(t, home, args...)
		s.expect(run)
		s.enter("secret words")
		if strings.HasPrefix(run, "New") {
			s.expect("The same again: ")
			s.enter("secret words")
			s.expect("type its last group .*: ")
			s.enter("")
			s.expect("Confirm it later with: tidemark key recovery --confirm")
		} else {
			s.expect("type its last group .*: ")
			s.enter("")
			s.expect("key now\\? \\[Y/n\\]: ")
			s.enter("n")
		}
		require.NotContains(t, s.expect("Setup is complete"), "Passphrase")
		require.Equal(t, 0, s.end())
	}
	keys, err := filepath.Glob(filepath.Join(home, ".config/tidemark/keys/*.key"))
	require.NoError(t, err)
	require.Empty(t, keys, "a passphrase needs no key file")
}

// An unfit target and differing passphrases are asked for again.
func TestSetupAsksAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	home, source, disk := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(filepath.Join(source, "file"), []byte("content"), 0o600))
	s := onTerminal(t, home, "setup", "--source", source, "--exclude-caches=no", "--policy", "important")
	s.expect("folder or address .*: ")
	s.enter("/proc")
	s.expect("schedule \\[hourly\\]: ")
	s.enter("sometimes")
	s.expect("schedule .*: ")
	s.enter("daily 02:30")
	s.expect("What to keep")
	s.expect("520 \\[1\\]: ")
	s.enter("")
	s.expect("the target is not usable")
	s.expect("folder or address .*: ")
	s.enter(disk)
	s.expect("all the same\\? \\[y/N\\]: ")
	s.enter("y")
	s.expect("target .* is (safe|degraded)")
	s.expect("New passphrase .*: ")
	s.enter("one")
	s.expect("The same again: ")
	s.enter("other")
	s.expect("passphrases differ")
	s.expect("New passphrase .*: ")
	s.enter("")
	s.expect("type its last group .*: ")
	s.enter("")
	s.expect("Setup is complete")
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		s.expect("Install the service now.* \\[Y/n\\]: ")
		s.enter("n")
	} else {
		s.expect("\\*/5 \\* \\* \\* \\* '.*tidemark' daemon --once --option-file '.*tidemark.opt'")
	}
	require.Equal(t, 0, s.end())
	content, err := os.ReadFile(filepath.Join(home, ".config/tidemark/tidemark.opt"))
	require.NoError(t, err)
	require.Contains(t, string(content), "\nREPOSITORY "+disk+"\n")
	require.Contains(t, string(content), "\nKEEPSNAPSHOTS time-machine\n")
}

// The password of a server that a person types is kept for later backups, which run unattended.
func TestSetupKeepsThePasswordOfTheServer(t *testing.T) {
	t.Parallel()
	server := smbtest.Start(t, smbtest.Config{})
	home, source := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(source, "file"), []byte("content"), 0o600))
	address := fmt.Sprintf("smb://%s@127.0.0.1:%d/%s/here", server.User, server.Port, smbtest.Share)
	s := onTerminal(t, home, "setup", "--source", source, "--policy", "important", "--exclude-caches=no",
		"--schedule", "never")
	s.expect("folder or address .*: ")
	s.enter(address)
	s.expect("Password of .*: ")
	s.enter("wrong")
	s.expect("refused the logon")
	s.expect("Password of .*: ")
	s.enter(smbtest.Password)
	s.expect("is safe")
	s.expect("New passphrase .*: ")
	s.enter("")
	s.expect("type its last group .*: ")
	s.enter("")
	s.expect("only you can read\\? \\[Y/n\\]: ")
	s.enter("")
	require.NotContains(t, s.expect("Setup is complete"), "Password of")
	require.Equal(t, 0, s.end())

	kept := filepath.Join(home, ".config/tidemark/keys/smb-127.0.0.1.password")
	info, err := os.Stat(kept)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	option, err := os.ReadFile(filepath.Join(home, ".config/tidemark/tidemark.opt"))
	require.NoError(t, err)
	require.NotContains(t, string(option), smbtest.Password)
	cmd := exec.Command("tidemark", "backup")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+t.TempDir(), "TIDEMARK_REPOSITORY=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The status is redrawn on a terminal until q or Ctrl-C, which is no failure, and leaves nothing.
func TestStatusIsWatched(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if _, err := exec.LookPath("tidemark"); err != nil {
		t.Skip("needs tidemark in PATH, which TestMain puts there")
	}
	home := t.TempDir()
	for _, key := range []byte{'q', 3} {
		s := onTerminal(t, home, "status", "--watch")
		require.Contains(t, s.expect("q: quit"), "no job of this user is running")
		s.expect("q: quit") // drawn again
		_, err := s.master.Write([]byte{key})
		require.NoError(t, err)
		require.Equal(t, 0, s.end())
		s.expect("\r\x1b\\[K\r\n\x1b\\[J\x1b\\[1A$") // taken away
	}
}

// -pick lists the versions of dsmc's people at the terminal, and restores the one that is chosen.
func TestDsmcPick(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, "data", "a.txt")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	for _, text := range []string{"first", "second one"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		s := onTerminal(t, home, "backup", "-q", filepath.Dir(file))
		require.Zero(t, s.end())
	}
	to := filepath.Join(home, "to") + "/"
	s := onTerminal(t, home, "dsmc", "restore", filepath.Dir(file)+"/*", to, "-pick", "-inactive")
	list := s.expect(`\[1-2, anything else ends\] `)
	require.Regexp(t, `   1 +10  B .*  A  .*/data/a.txt\r\n +2 +5  B .*  I  .*/data/a.txt\r\n`, list)
	s.enter("2")
	require.Zero(t, s.end())
	content, err := os.ReadFile(filepath.Join(to, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "first", string(content))

	s = onTerminal(t, home, "dsmc", "restore", filepath.Dir(file)+"/*", to, "-pick")
	s.expect(`\[1-1, anything else ends\] `)
	s.enter("3")
	s.expect("no version was chosen: nothing was restored")
	require.Equal(t, 12, s.end())
}
