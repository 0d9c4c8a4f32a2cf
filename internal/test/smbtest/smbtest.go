// Package smbtest runs a real Samba for tests: an smbd on a high port of the loopback interface, with its own
// configuration, users and share, behind a proxy that can delay, cut and change frames. Only a Line, a network that can
// be interrupted, needs privileges. Where smbd is not installed, the test is skipped.
package smbtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

const (
	// Share is the name of the share.
	Share = "backup"
	// Password is that of the only user.
	Password = "correct horse% battery"
	// starting bounds the time until smbd listens; patience is the polling interval.
	starting = 20 * time.Second
	patience = 10 * time.Millisecond
	loopback = "127.0.0.1"
)

// Config adds lines to the configuration of a server. They override the default lines.
type Config struct {
	Global []string // lines of the section [global]
	Share  []string // lines of the section of the share
	Folder string   // what is shared; "": a new folder
	Line   *Line    // the server runs at its far end; nil: on the loopback interface
}

// Server is an smbd with its children.
type Server struct {
	User   string // may log on
	Folder string // what is shared
	Host   string // its address
	Port   int

	t       testing.TB
	dir     string
	config  Config
	line    *Line
	smbd    *exec.Cmd
	ended   chan struct{}
	helpers []int // children of smbd that serve no client
}

// Start runs a server until the test ends.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	testkit.Slow(t)
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc, to see the processes of smbd")
	}
	for _, tool := range []string{"smbd", "pdbedit", "smbcontrol"} {
		if find(tool) == "" {
			t.Skipf("needs Samba: %s is not installed", tool)
		}
	}
	me, err := user.Current()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(testkit.Memory(), "smbtest") // a short path, because it contains sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{User: me.Username, Folder: c.Folder, Host: loopback, t: t, dir: dir, config: c, line: c.Line,
		Port: ownPort(t)}
	if c.Line != nil {
		s.Host = c.Line.Server
	}
	if s.Folder == "" {
		s.Folder = filepath.Join(dir, "share")
		require.NoError(t, os.Mkdir(s.Folder, 0o700))
	}
	require.NoError(t, os.Mkdir(s.at("private"), 0o700))
	s.Configure(c)
	add := exec.Command(find("pdbedit"), "--configfile="+s.at("smb.conf"), "--create", "--user="+s.User,
		"--password-from-stdin")
	add.Stdin = strings.NewReader(Password + "\n" + Password + "\n")
	out, err := add.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(s.Kill)
	s.Run()
	return s
}

// find returns the path of a program of Samba, also in /usr/sbin; "": not found.
func find(tool string) string {
	for _, at := range []string{tool, "/usr/sbin/" + tool} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	return ""
}

// NeedModule skips the test where Samba lacks that VFS module ("fruit"): Debian has a separate package
// samba-vfs-modules.
func NeedModule(t testing.TB, name string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib*/*/samba/vfs/" + name + ".so")
	more, _ := filepath.Glob("/usr/lib*/samba/vfs/" + name + ".so")
	if len(found)+len(more) == 0 {
		t.Skipf("needs the module %s of Samba (Debian: samba-vfs-modules)", name)
	}
}

// ownPort returns a port of the loopback interface that no other server of this package uses until the test ends, in
// any process: two smbd would share it silently. It lies outside the range that the kernel assigns. An abstract socket
// with its number reserves it, and ends with the process.
func ownPort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(20000)
		claim, err := net.Listen("unix", "@tidemark-smbtest-"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
			require.NoError(t, l.Close())
			t.Cleanup(func() { _ = claim.Close() })
			return port
		}
		_ = claim.Close()
	}
	t.Fatal("no port is free")
	return 0
}

func (s *Server) at(name string) string { return filepath.Join(s.dir, name) }

// Configure rewrites the configuration. Reload applies it.
func (s *Server) Configure(c Config) {
	s.t.Helper()
	s.config = c
	var b strings.Builder
	section := func(name string, lines ...string) {
		fmt.Fprintf(&b, "[%s]\n", name)
		for _, line := range lines {
			fmt.Fprintf(&b, "\t%s\n", line)
		}
	}
	global := []string{
		"server role = standalone server", "workgroup = TIDEMARK", "netbios name = TIDEMARKTEST", "disable netbios = yes",
		"interfaces = " + s.Host, "bind interfaces only = yes", "server min protocol = SMB2_02",
		"load printers = no", "printing = bsd", "printcap name = /dev/null", "disable spoolss = yes",
		"passdb backend = tdbsam:" + s.at("private/passdb.tdb"), "log file = " + s.at("log"), "max log size = 0",
	}
	for _, kind := range []string{"lock", "state", "cache", "pid", "private", "ncalrpc"} {
		dir := kind + " directory"
		if kind == "private" || kind == "ncalrpc" {
			dir = kind + " dir"
		}
		global = append(global, dir+" = "+s.at(kind))
	}
	section("global", append(global, c.Global...)...)
	section(Share, append([]string{"path = " + s.Folder, "read only = no"}, c.Share...)...)
	require.NoError(s.t, os.WriteFile(s.at("smb.conf"), []byte(b.String()), 0o600))
}

// Reload restarts the server with the current configuration.
func (s *Server) Reload() {
	s.t.Helper()
	s.Kill()
	s.Run()
}

// Run starts the server after Kill, on the same port.
func (s *Server) Run() {
	s.t.Helper()
	var said bytes.Buffer
	s.smbd = s.line.command(find("smbd"), "--foreground", "--no-process-group", "--configfile="+s.at("smb.conf"),
		"--port="+strconv.Itoa(s.Port), "--log-basename="+s.dir)
	s.smbd.Stdout, s.smbd.Stderr = &said, &said
	s.smbd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(s.t, s.smbd.Start())
	s.ended = make(chan struct{})
	go func(smbd *exec.Cmd, ended chan struct{}) {
		_ = smbd.Wait() // it is killed
		close(ended)
	}(s.smbd, s.ended)
	s.await("smbd listens", func() bool {
		select {
		case <-s.ended:
			s.t.Fatalf("smbd ended: %s\n%s", said.String(), s.Log())
		default:
		}
		c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	s.helpers = nil
	s.await("the child of the first connection ends", func() bool {
		now := s.children()
		quiet := len(now) > 0 && slices.Equal(now, s.helpers)
		s.helpers = now
		return quiet
	})
}

// await polls until the condition holds, or fails the test.
func (s *Server) await(what string, so func() bool) {
	s.t.Helper()
	for limit := time.Now().Add(starting); !so(); time.Sleep(patience) {
		if time.Now().After(limit) {
			s.t.Fatalf("waited %v until %s\n%s", starting, what, s.Log())
		}
	}
}

// Kill ends smbd and all its children at once, as a power cut would.
func (s *Server) Kill() {
	if s.smbd == nil {
		return
	}
	_ = syscall.Kill(-s.smbd.Process.Pid, syscall.SIGKILL)
	<-s.ended
	s.smbd = nil
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Log returns the log of the server.
func (s *Server) Log() string {
	var all strings.Builder
	_ = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.HasPrefix(e.Name(), "log") {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
		if e != nil && e.IsDir() && path != s.dir {
			return fs.SkipDir
		}
		return nil
	})
	return all.String()
}

// children returns the processes that smbd started.
func (s *Server) children() []int {
	pid := strconv.Itoa(s.smbd.Process.Pid)
	list, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(list)) {
		child, _ := strconv.Atoi(field)
		pids = append(pids, child)
	}
	return pids
}

// Clients returns the processes that serve one connection each.
func (s *Server) Clients() []int {
	return slices.DeleteFunc(s.children(), func(pid int) bool { return slices.Contains(s.helpers, pid) })
}

// AwaitClients waits until that many connections are served.
func (s *Server) AwaitClients(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d connections are served", n), func() bool { return len(s.Clients()) == n })
}

// KillClient ends the process of one connection.
func (s *Server) KillClient(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Fatal(err)
	}
}

// Control sends a message to a process of the server: its number, or "smbd" for all.
func (s *Server) Control(to string, message ...string) {
	s.t.Helper()
	args := append([]string{"--configfile=" + s.at("smb.conf"), to}, message...)
	out, err := exec.Command(find("smbcontrol"), args...).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}
