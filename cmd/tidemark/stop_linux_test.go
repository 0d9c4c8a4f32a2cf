package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// ends is how long a run may take to end after SIGTERM: 5 seconds, and the same for a machine that is busy.
const ends = 10 * time.Second

// stage is the place of one run: a home folder, a source of 4 MiB and a repository with a backup of it.
type stage struct {
	*testing.T
	dir, source, repo string
	env               []string
	pid               int // of the program that is to be stopped
}

func newStage(t *testing.T) *stage {
	dir := t.TempDir()
	s := &stage{T: t, dir: dir, source: dir + "/source", repo: dir + "/repo"}
	for _, name := range []string{"home", "source"} {
		require.NoError(t, os.Mkdir(s.at(name), 0o700))
	}
	run, err := os.MkdirTemp("", "run") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	s.write("source/big", random(4<<20))
	s.write("password", []byte("secret\n"))
	s.env = append(os.Environ(), "HOME="+s.at("home"), "XDG_RUNTIME_DIR="+run, "XDG_STATE_HOME="+s.at("state"),
		"TIDEMARK_REPOSITORY="+s.repo, "TIDEMARK_POLICY=important", "TZ=UTC")
	s.do("init", "--password-file", s.at("password"))
	s.do(s.backup()...)
	return s
}

func random(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.Read(p) // never fails
	return p
}

func (s *stage) at(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) write(name string, content []byte) {
	require.NoError(s, os.WriteFile(s.at(name), content, 0o600))
}

// options writes an option file and returns its path.
func (s *stage) options(lines ...string) string {
	s.write("opt", []byte(strings.Join(lines, "\n")+"\n"))
	return s.at("opt")
}

// backup returns the arguments of a backup of the source.
func (s *stage) backup(more ...string) []string {
	return append([]string{"backup", "--password-file", s.at("password"), s.source}, more...)
}

// do runs a command that must succeed.
func (s *stage) do(args ...string) {
	s.Helper()
	cmd := exec.Command("tidemark", args...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, "tidemark %s: %s", strings.Join(args, " "), out)
}

// ask runs a command that may fail, and returns its output.
func (s *stage) ask(args ...string) ([]byte, error) {
	cmd := exec.Command("tidemark", args...)
	cmd.Env = s.env
	return cmd.Output()
}

// opens waits until the program has a file open.
func (s *stage) opens(path string) {
	s.await("open "+path, func() bool {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.pid))
		return slices.ContainsFunc(links, func(link string) bool {
			to, _ := os.Readlink(link)
			return to == path
		})
	})
}

// pipe makes a named pipe, and returns its path and what waits until it is open for reading.
func (s *stage) pipe() (path string, opened func()) {
	path = s.at("pipe")
	require.NoError(s, unix.Mkfifo(path, 0o600))
	return path, func() {
		s.await("the pipe is opened", func() bool {
			f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
			if err == nil {
				s.Cleanup(func() { f.Close() })
			}
			return err == nil
		})
	}
}

func (s *stage) await(what string, is func() bool) {
	s.Helper()
	require.Eventually(s, is, time.Minute, 10*time.Millisecond, what)
}

// exists waits for a file of a name or pattern.
func (s *stage) exists(pattern string) func() {
	return func() {
		s.await(pattern, func() bool { found, _ := filepath.Glob(s.at(pattern)); return len(found) > 0 })
	}
}

// state is a program that is about to wait.
type state struct {
	args  []string
	on    *session  // already started there; nil: args are run
	in    io.Reader // nil: none
	env   []string
	ready func()
	held  bool // its standard output is a pipe that is not read beyond its first byte, for which ready waits
	clean bool // it ends with 0, not with 130
}

// stops runs the program, ends it with SIGTERM in its state, and checks what it left.
func (s *stage) stops(st state) {
	s.Helper()
	text, ended := &bytes.Buffer{}, make(chan error, 1)
	var process *os.Process
	if st.on != nil {
		process, ended = st.on.cmd.Process, st.on.ended
	} else {
		cmd := exec.Command("tidemark", st.args...)
		cmd.Env, cmd.Stdin, cmd.Stderr = append(s.env, st.env...), st.in, text
		if st.held {
			out, to, err := os.Pipe()
			require.NoError(s, err)
			s.Cleanup(func() { out.Close() })
			cmd.Stdout = to
			st.ready = func() {
				require.NoError(s, to.Close())
				_, err := out.Read(make([]byte, 1))
				require.NoError(s, err, text)
			}
		}
		cmd.WaitDelay = time.Millisecond
		require.NoError(s, cmd.Start())
		process = cmd.Process
		s.Cleanup(func() { _ = process.Kill() }) // it may have ended
		go func() { ended <- cmd.Wait() }()
	}
	s.pid = process.Pid
	st.ready()
	at := time.Now()
	require.NoError(s, process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		s.Logf("ended after %v", time.Since(at).Round(10*time.Millisecond))
		if st.clean {
			require.NoError(s, err, text)
			break
		}
		var exit *exec.ExitError
		require.ErrorAs(s, err, &exit, text)
		require.Equal(s, 130, exit.ExitCode(), text)
	case <-time.After(ends):
		_ = process.Signal(syscall.SIGQUIT) // prints all stacks
		select {                            // a process that waits in the kernel does not
		case <-ended:
		case <-time.After(ends):
		}
		require.Fail(s, "the program does not end", text)
	}
	s.write("source/more", random(1000))
	s.do(s.backup()...)
	s.do("check", "--read-data", "--password-file", s.at("password"))
}

// server accepts connections and never answers. ready waits for one.
func (s *stage) server() (address string, ready func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s, err)
	s.Cleanup(func() { l.Close() })
	return fmt.Sprintf("smb://guest@%s/share/here", l.Addr()), func() {
		c, err := l.Accept()
		require.NoError(s, err)
		s.Cleanup(func() { c.Close() })
	}
}

// slow are options under which what is larger than the source takes hours.
func slow(direction string) []string { return []string{"--limit-" + direction, "1"} }

// states returns each state in which a run may be when a signal comes.
func states() map[string]func(s *stage) state {
	all := map[string]func(s *stage) state{
		"its output is not read": func(s *stage) state {
			return state{args: []string{"dump", "--password-file", s.at("password"), "latest", s.source + "/big"}, held: true}
		},
		"restore from a slow store": func(s *stage) state {
			return state{args: append([]string{"restore", "--password-file", s.at("password"), "--target", s.at("out"), "latest",
				"--json", "--progress-interval", "100ms"}, slow("download")...), held: true}
		},
		"check of a slow store": func(s *stage) state {
			return state{args: append([]string{"check", "--read-data", "--password-file", s.at("password"), "--json",
				"--progress-interval", "100ms"}, slow("download")...), held: true}
		},
		"prune of a slow store": func(s *stage) state {
			s.write("source/big", random(4<<20))
			s.do(s.backup()...)
			s.do("forget", "--password-file", s.at("password"), "--keep", "last 1")
			return state{args: append([]string{"prune", "--password-file", s.at("password"), "--json",
				"--progress-interval", "100ms"}, slow("download")...), held: true}
		},
		"upload to a slow store": func(s *stage) state {
			s.write("source/big", random(4<<20))
			return state{args: s.backup(slow("upload")...), ready: s.exists("repo/leases/*")}
		},
		"a server that does not answer": func(s *stage) state {
			address, ready := s.server()
			return state{args: s.backup("--repo", address), ready: ready}
		},
	}
	for name, makeState := range inputStates() {
		all[name] = makeState
	}
	for name, makeState := range commandStates() {
		all[name] = makeState
	}
	for name, makeState := range otherStates() {
		all[name] = makeState
	}
	return all
}

// inputStates are those in which the program waits for what it reads.
func inputStates() map[string]func(s *stage) state {
	return map[string]func(s *stage) state{
		"a password file that is a pipe": func(s *stage) state {
			path, opened := s.pipe()
			return state{args: []string{"backup", "--password-file", path, s.source}, ready: opened}
		},
		"a list of files that is a pipe": func(s *stage) state {
			path, opened := s.pipe()
			return state{args: []string{"backup", "--password-file", s.at("password"), "--files-from", path}, ready: opened}
		},
		"standard input": func(s *stage) state {
			in, to, err := os.Pipe()
			require.NoError(s, err)
			s.Cleanup(func() { in.Close(); to.Close() })
			return state{args: []string{"backup", "--password-file", s.at("password"), "--stdin"}, in: in, ready: func() {
				_, err := to.Write(make([]byte, 256<<10)) // more than a pipe holds
				require.NoError(s, err)
			}}
		},
		"a passphrase that is typed": func(s *stage) state {
			terminal := onTerminal(s.T, s.T.TempDir(), "snapshots", "--repo", s.repo)
			return state{on: terminal, ready: func() { terminal.expect("(?i)passphrase.*: ") }}
		},
		"a source that does not answer": func(s *stage) state {
			point := hungMount(s, s.source)
			return state{args: []string{"backup", "--password-file", s.at("password"), point}, ready: s.waitsForFUSE}
		},
	}
}

// commandStates are those in which the program waits for another.
func commandStates() map[string]func(s *stage) state {
	const deaf = `trap "" TERM; touch %s/started; while :; do sleep 1; done`
	return map[string]func(s *stage) state{
		"a command that is backed up": func(s *stage) state {
			return state{args: []string{"backup", "--password-file", s.at("password"), "--stdin-from-command", "--",
				"sh", "-c", fmt.Sprintf(deaf, s.dir)}, ready: s.exists("started")}
		},
		"a password command": func(s *stage) state {
			return state{args: []string{"backup", "--password-command", fmt.Sprintf("touch %s/started; sleep 600; echo", s.dir),
				s.source}, ready: s.exists("started")}
		},
		"a before-command": func(s *stage) state {
			opt := s.options(`BEFORECOMMAND "sh -c '` + strings.ReplaceAll(fmt.Sprintf(deaf, s.dir), `"`, "") + `'"`)
			return state{args: s.backup("--option-file", opt), ready: s.exists("started")}
		},
		"the service with a run": func(s *stage) state {
			path, opened := s.pipe()
			opt := s.options("SERVERNAME home", "REPOSITORY "+s.repo, "PASSWORDFILE "+path, "DOMAIN "+s.source,
				"SCHEDULE never")
			return state{args: []string{"daemon", "--option-file", opt}, clean: true, ready: func() {
				s.await("the job starts", func() bool {
					_, err := s.ask("job", "start", "home", "--option-file", opt)
					return err == nil
				})
				opened()
			}}
		},
	}
}

// otherStates are those in which the program waits for other runs, for the disk and for the target.
func otherStates() map[string]func(s *stage) state {
	return map[string]func(s *stage) state{
		"a disk that others use": func(s *stage) state {
			s.disturb()
			args := s.backup("--policy", "throttle", "--max-impact", "0", "--lowpri-throttle-tier3-window-msecs", "600000")
			for _, medium := range []string{"", "ssd-"} {
				args = append(args, "--lowpri-throttle-tier3-io-period-"+medium+"msecs", "60000")
			}
			s.write("source/more", random(4<<20))
			return state{args: args, ready: func() {
				s.await("the run yields", func() bool {
					out, _ := s.ask("tier", "show", "--json")
					return bytes.Contains(out, []byte(`"state":"waiting"`))
				})
			}}
		},
		"the commands of another run of the job": func(s *stage) state {
			opt := s.options(`AFTERCOMMAND "true"`)
			s.do(s.backup("--option-file", opt)...)
			files, err := filepath.Glob(s.at("state/tidemark/commands/*"))
			require.NoError(s, err)
			require.Len(s, files, 1)
			f, err := os.Open(files[0])
			require.NoError(s, err)
			s.Cleanup(func() { f.Close() })
			require.NoError(s, unix.Flock(int(f.Fd()), unix.LOCK_EX))
			return state{args: s.backup("--option-file", opt), ready: func() { s.opens(files[0]) }}
		},
		"the service with a notification that is not taken": func(s *stage) state {
			address, taken := s.server()
			address = strings.Replace(strings.TrimSuffix(address, "/share/here"), "smb://guest@", "http://", 1)
			metrics := s.at("metrics.prom")
			opt := s.options("METRICSFILE "+metrics, "SERVERNAME home", "REPOSITORY "+s.repo, "PASSWORDFILE "+s.at("password"),
				"DOMAIN "+s.source, "SCHEDULE never", "HEALTHCHECK "+address)
			s.Cleanup(func() {
				left, err := os.ReadFile(metrics)
				require.NoError(s, err)
				require.NotContains(s, string(left), "tidemark_job_valid", "of a service that runs")
			})
			return state{args: []string{"daemon", "--option-file", opt}, clean: true, ready: func() {
				s.await("the job starts", func() bool {
					_, err := s.ask("job", "start", "home", "--option-file", opt)
					return err == nil
				})
				taken()
			}}
		},
		"the service with a run behind another": func(s *stage) state {
			path, opened := s.pipe()
			opt := s.options("REPOSITORY "+s.repo, "PASSWORDFILE "+path, "DOMAIN "+s.source, "SCHEDULE never",
				"SERVERNAME first", "SERVERNAME second")
			return state{args: []string{"daemon", "--option-file", opt}, clean: true, ready: func() {
				for _, job := range []string{"first", "second"} {
					s.await("the job starts", func() bool {
						_, err := s.ask("job", "start", job, "--option-file", opt)
						return err == nil
					})
				}
				opened()
				s.await("the second waits", func() bool {
					out, _ := s.ask("status", "--json", "--option-file", opt)
					return bytes.Contains(out, []byte("job first backs up the same sources"))
				})
			}}
		},
		"a target that does not answer": func(s *stage) state {
			point := hungMount(s, s.repo)
			return state{args: s.backup("--repo", point), ready: s.waitsForFUSE}
		},
	}
}

// disturb writes to the disk of the stage until the test ends.
func (s *stage) disturb() {
	var fs unix.Statfs_t
	require.NoError(s, unix.Statfs(s.dir, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		s.Skip("needs a temporary folder on a disk, not in memory")
	}
	f, err := os.Create(s.at("noise"))
	require.NoError(s, err)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for err := error(nil); err == nil && !stop.Load(); {
			if _, err = f.WriteAt(random(4<<10), 0); err == nil {
				err = f.Sync()
			}
		}
	}()
	s.Cleanup(func() { stop.Store(true); <-done; f.Close() })
}

// hungMount returns a mount of a folder by a daemon of FUSE that is stopped. It is stopped while it has no request: a
// process that waits for a request which the daemon has read cannot be ended by any signal.
func hungMount(s *stage, folder string) (point string) {
	if os.Geteuid() != 0 {
		s.Skip("needs root to mount")
	}
	path, err := exec.LookPath("bindfs")
	if err != nil {
		s.Skip("needs bindfs")
	}
	point = s.at("mount")
	require.NoError(s, os.Mkdir(point, 0o700))
	var before, now unix.Stat_t
	require.NoError(s, unix.Stat(point, &before))
	daemon := exec.Command(path, "-f", folder, point)
	require.NoError(s, daemon.Start())
	ended := make(chan struct{})
	go func() { _ = daemon.Wait(); close(ended) }() // it is killed
	s.Cleanup(func() {
		_ = unix.Unmount(point, unix.MNT_DETACH) // it may be gone
		_ = daemon.Process.Kill()
		<-ended
	})
	for limit := time.Now().Add(time.Minute); now.Dev == 0 || now.Dev == before.Dev; {
		select {
		case <-ended:
			s.Skip("needs FUSE: bindfs ended at once")
		case <-time.After(10 * time.Millisecond):
			require.NoError(s, unix.Stat(point, &now))
			require.True(s, time.Now().Before(limit), "bindfs mounts")
		}
	}
	require.NoError(s, daemon.Process.Signal(syscall.SIGSTOP))
	return point
}

// waitsForFUSE waits until a thread of the program waits for the answer to a request. It must not be the first thread,
// which the kernel wakes for SIGTERM.
func (s *stage) waitsForFUSE() {
	waits := func(thread string) bool {
		at, _ := os.ReadFile(thread)
		return strings.Contains(string(at), "request_wait_answer") || strings.Contains(string(at), "fuse")
	}
	s.await("a request", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", s.pid))
		return slices.ContainsFunc(threads, waits)
	})
	require.False(s, waits(fmt.Sprintf("/proc/%d/task/%[1]d/wchan", s.pid)), "the first thread waits")
}

// However it waits, a run ends soon after SIGTERM, and leaves what an interrupted run leaves.
func TestSIGTERMEndsARunInEveryState(t *testing.T) {
	testkit.Slow(t)
	for name, makeState := range states() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.stops(makeState(s))
		})
	}
	for name, verdict := range map[string]smbtest.Verdict{
		"a share that does not take what is written": smbtest.Drop, "a share that breaks off again and again": smbtest.Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := smbtest.Start(t, smbtest.Config{})
			line := smbtest.NewProxy(t, server.Addr(), 0)
			s := newStage(t)
			s.write("server-password", []byte(smbtest.Password+"\n"))
			address := fmt.Sprintf("smb://%s@127.0.0.1:%d/%s/here", server.User, line.Port, smbtest.Share)
			more := []string{"--repo", address, "--smb-password-file", s.at("server-password")}
			s.do(append([]string{"init", "--password-file", s.at("password")}, more...)...)
			lost := make(chan struct{}, 1000)
			line.Filter(func(f *smbtest.Frame) smbtest.Verdict {
				if f.ToServer && len(f.Data) > 64<<10 {
					lost <- struct{}{}
					return verdict
				}
				return smbtest.Pass
			})
			s.stops(state{args: s.backup(more...), ready: func() { <-lost }})
			line.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
			s.do(s.backup(more...)...)
		})
	}
}

// The after-command undoes what the before-command did: it runs, and is waited for, also if the backup hangs.
func TestSIGTERMWaitsForTheAfterCommand(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newStage(t)
	path, opened := s.pipe()
	opt := s.options(fmt.Sprintf(`AFTERCOMMAND "sleep 2; touch %s/after"`, s.dir))
	s.stops(state{args: []string{"backup", "--password-file", path, "--option-file", opt, s.source}, ready: opened})
	require.FileExists(t, s.at("after"))
}
