// Package sftptest starts sshd for tests, with keys and a configuration of its own.
package sftptest

import (
	"crypto"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// program is the SFTP server of Debian.
const program = "/usr/lib/openssh/sftp-server"

// Server is an sshd on the loopback that ends with the test. Its user is that of the test.
type Server struct {
	Host   string // the alias under which the ssh of Bin knows it
	Folder string // a folder of the server, on this machine
	Bin    string // a folder whose ssh uses the keys of the server; to be first in PATH
	t      testing.TB
	dir    string
	port   string
	run    *exec.Cmd
}

// Program returns the SFTP server, to be run without ssh. It skips the test where there is none, and fails it in CI.
func Program(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		missing(t, "needs "+program+": apt-get install openssh-server")
	}
	return program
}

// Without returns an SFTP server that refuses a kind of request, as 'sftp-server -Q requests' names it.
func Without(t testing.TB, request string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "server")
	text := fmt.Sprintf("#!/bin/sh\nexec %s -P %s\n", Program(t), request)
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	return script
}

func missing(t testing.TB, how string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(how)
	}
	t.Skip(how)
}

// Start starts an sshd. It skips the test where there is none or the user is not root, and fails it in CI.
func Start(t testing.TB) *Server {
	t.Helper()
	Program(t)
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		missing(t, "needs ssh: apt-get install openssh-client")
	}
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		missing(t, "needs sshd: apt-get install openssh-server")
	}
	if os.Getuid() != 0 {
		missing(t, "needs root: sshd logs on users")
	}
	s := &Server{t: t, dir: t.TempDir(), Host: "tidemark-test-server"}
	s.Folder, s.Bin = filepath.Join(s.dir, "data"), filepath.Join(s.dir, "bin")
	for _, dir := range []string{s.Folder, s.Bin, "/run/sshd"} { // the last is where sshd confines itself
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	s.port = freePort(t)
	s.key("host")
	s.key("user")
	s.Offer(true)
	s.write("ssh_config", "Host "+s.Host, "HostName 127.0.0.1", "Port "+s.port, "IdentityFile "+s.path("user"),
		"IdentitiesOnly yes", "UserKnownHostsFile "+s.path("known"), "GlobalKnownHostsFile none", "HostKeyAlias test")
	s.Know("host")
	s.write("bin/ssh", "#!/bin/sh", fmt.Sprintf("exec %s -F %s \"$@\"", ssh, s.path("ssh_config")))
	require.NoError(t, os.Chmod(s.path("bin/ssh"), 0o755))
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) write(name string, lines ...string) {
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// key makes a pair of keys.
func (s *Server) key(name string) {
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.path(name)).CombinedOutput()
	require.NoError(s.t, err, string(out))
}

// Know makes the client expect a host key: "host" is that of the server, "" none, another name a new one.
func (s *Server) Know(name string) {
	s.t.Helper()
	if name == "" {
		s.write("known")
		return
	}
	if name != "host" {
		s.key(name)
	}
	public, err := os.ReadFile(s.path(name + ".pub"))
	require.NoError(s.t, err)
	s.write("known", "test "+string(public))
}

// Home makes a home folder for a program without ssh, with the key of the test and the host key known; "": no host key.
// Such a program connects to 127.0.0.1 at Port.
func (s *Server) Home(known string) string {
	s.t.Helper()
	home := s.t.TempDir()
	require.NoError(s.t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	key, err := os.ReadFile(s.path("user"))
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(filepath.Join(home, ".ssh/id_ed25519"), key, 0o600))
	if known != "" {
		s.Know(known)
		line, err := os.ReadFile(s.path("known"))
		require.NoError(s.t, err)
		text := "[127.0.0.1]:" + s.port + strings.TrimPrefix(string(line), "test")
		require.NoError(s.t, os.WriteFile(filepath.Join(home, ".ssh/known_hosts"), []byte(text), 0o600))
	}
	return home
}

// AddHostKey restarts the server with a further host key.
func (s *Server) AddHostKey(key crypto.PrivateKey) {
	s.t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(s.t, err)
	s.write("second", string(pem.EncodeToMemory(block)))
	s.Kill()
	s.Offer(true, "HostKey "+s.path("second"))
	s.Run()
}

// Accept makes the server accept the key of the test, or none.
func (s *Server) Accept(yes bool) {
	from, to := "user.pub", "hidden"
	if yes {
		from, to = to, from
	}
	require.NoError(s.t, os.Rename(s.path(from), s.path(to)))
}

// Offer makes the server offer SFTP, or not, from its next start, with further lines of its configuration.
func (s *Server) Offer(yes bool, further ...string) {
	lines := []string{"Port " + s.port, "ListenAddress 127.0.0.1", "HostKey " + s.path("host"),
		"AuthorizedKeysFile " + s.path("user.pub"), "PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin yes",
		"PasswordAuthentication no"}
	if yes {
		lines = append(lines, "Subsystem sftp internal-sftp") // not by the shell of the user, which may read any file
	}
	s.write("sshd_config", append(lines, further...)...)
}

// Port returns the port of the server, which its host in ssh_config implies.
func (s *Server) Port() int {
	port, err := strconv.Atoi(s.port)
	require.NoError(s.t, err)
	return port
}

// freePort returns a port of this machine that nothing listens on.
func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// Run starts the server, also again after Kill, at the same port.
func (s *Server) Run() {
	s.t.Helper()
	s.run = exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", s.path("sshd_config"))
	s.run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(s.t, s.run.Start())
	for range 300 {
		if c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port, time.Second); err == nil {
			require.NoError(s.t, c.Close())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatal("sshd does not listen")
}

// Kill ends the server and all its connections at once.
func (s *Server) Kill() {
	if s.run == nil {
		return
	}
	for _, pid := range s.connections() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.run.Process.Kill()
	_ = s.run.Wait()
	s.run = nil
}

// Freeze stops all connections, which stay open and answer nothing until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets the connections go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	all := s.connections()
	require.NotEmpty(s.t, all)
	for _, pid := range all {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// connections returns the processes that the server has started, which are in sessions of their own.
func (s *Server) connections() []int {
	var found []int
	parents := []int{s.run.Process.Pid}
	for len(parents) > 0 {
		parent := parents[0]
		parents = parents[1:]
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				found, parents = append(found, pid), append(parents, pid)
			}
		}
	}
	return found
}
