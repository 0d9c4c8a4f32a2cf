package sftp

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// longestSocket is how long the path of a socket may be: macOS has room for 104 bytes, and ssh appends 17.
	longestSocket = 104 - 1 - 17
	// politely is how long a program has to end after it was asked to.
	politely = time.Second
	// saidAtMost bounds what is kept of the messages of ssh.
	saidAtMost = 8 << 10
)

// line is a connection of the ssh program to a server. ssh authenticates once, when the connection begins, and goes on
// in the background; each channel is a further ssh that uses this connection by a socket in a private folder. ssh ends
// persist after the last channel, also if this program is killed.
type line struct {
	target Target
	ask    bool // ssh may ask on the terminal

	mu  sync.Mutex
	dir string // holds the socket; "": not made yet
}

// persist is how many seconds ssh keeps a connection without channels.
const persist = "10"

// channel starts a program that speaks SFTP. It connects if there is no connection.
func (l *line) channel(ctx context.Context) (*stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	// Without the connection, ssh would make one of its own, and ask again.
	return program(exec.Command("ssh",
		l.args("ControlMaster=no", "ProxyCommand=false", "BatchMode=yes", "-s", "sftp")...))
}

// args returns the arguments of ssh: options, flags and the subsystem.
func (l *line) args(words ...string) []string {
	args := []string{"-o", "ControlPath=" + filepath.Join(l.dir, "s"), "-o", "LogLevel=ERROR", "-o", "RemoteCommand=none",
		"-o", "RequestTTY=no", "-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no",
		"-o", "PermitLocalCommand=no"}
	if l.target.User != "" {
		args = append(args, "-l", l.target.User)
	}
	if l.target.Port != 0 {
		args = append(args, "-p", strconv.Itoa(l.target.Port))
	}
	var last []string
	for _, word := range words {
		switch {
		case word[0] == '-':
			args = append(args, word)
		case bytes.ContainsRune([]byte(word), '='):
			args = append(args, "-o", word)
		default:
			last = append(last, word)
		}
	}
	return append(append(args, "--", l.target.Host), last...)
}

// connect authenticates unless there is a connection. ssh may ask on the terminal while it runs in the foreground: it
// has the process group of this program, so that Ctrl-C ends it.
func (l *line) connect(ctx context.Context) error {
	if l.dir == "" {
		dir, err := privateFolder()
		if err != nil {
			return err
		}
		l.dir = dir
	}
	socket := filepath.Join(l.dir, "s")
	if c, err := net.Dial("unix", socket); err == nil {
		return c.Close()
	}
	_ = os.Remove(socket) // that of a killed ssh
	said, err := os.CreateTemp(l.dir, "said-")
	if err != nil {
		return err
	}
	defer func() { _, _ = said.Close(), os.Remove(said.Name()) }()
	batch := "BatchMode=yes"
	if l.ask {
		batch = "BatchMode=no"
	}
	run := exec.CommandContext(ctx, "ssh", l.args("-f", "-N", "ControlMaster=yes", "ControlPersist="+persist, batch,
		"ServerAliveInterval=15", "ServerAliveCountMax=3", "ConnectTimeout=15")...)
	// A file, not a pipe, which the ssh in the background would keep open.
	run.Stderr = said
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) } // it restores the terminal
	run.WaitDelay = politely
	err = run.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		text := make([]byte, saidAtMost)
		n, _ := said.ReadAt(text, 0)
		return &refusal{said: string(text[:n]), cause: err}
	}
	return nil
}

// privateFolder makes a folder for a socket.
func privateFolder() (string, error) {
	dir := os.TempDir()
	if len(filepath.Join(dir, "tidemark-1234567890", "s")) > longestSocket {
		dir = "/tmp"
	}
	return os.MkdirTemp(dir, "tidemark-") // only this user has access
}

// close ends the connection.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), politely)
	defer cancel()
	run := exec.CommandContext(ctx, "ssh", l.args("ProxyCommand=false", "-Oexit")...)
	run.Stdout, run.Stderr = io.Discard, io.Discard
	run.WaitDelay = politely
	_ = run.Run() // otherwise it ends by itself
	_ = os.RemoveAll(l.dir)
	l.dir = ""
}

// refusal is why ssh did not connect.
type refusal struct {
	said  string // its messages
	cause error
}

// Error returns the last message of ssh.
func (r *refusal) Error() string {
	lines := bytes.Split(bytes.TrimSpace([]byte(r.said)), []byte("\n"))
	if last := string(bytes.TrimSpace(lines[len(lines)-1])); last != "" {
		return last
	}
	return r.cause.Error()
}

// Unwrap returns the error of the process.
func (r *refusal) Unwrap() error { return r.cause }
