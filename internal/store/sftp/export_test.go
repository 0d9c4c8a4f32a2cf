package sftp

import (
	"io"
	"os/exec"
	"syscall"
)

// Directly makes a store run an SFTP server as its child instead of ssh.
func (o Options) Directly(program string) Options {
	o.direct = func() (*stream, error) { return newProgram(program) }
	return o
}

// Through is Directly with a line between the client and the server.
func (o Options) Through(program string,
	line func(in io.WriteCloser, out io.Reader) (io.WriteCloser, io.Reader)) Options {
	o.direct = func() (*stream, error) {
		on, err := newProgram(program)
		if err == nil {
			on.in, on.out = line(on.in, on.out)
		}
		return on, err
	}
	return o
}

func newProgram(path string) (*stream, error) { return program(exec.Command(path)) }

// KillChannels kills the program of each channel and returns how many there were.
func (s *Store) KillChannels() int {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, c := range s.pool.live {
		c.kill()
	}
	return len(s.pool.live)
}

// Groups returns the process groups of the channels.
func (s *Store) Groups() (groups []int) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, c := range s.pool.live {
		group, _ := syscall.Getpgid(c.pid)
		groups = append(groups, group)
	}
	return groups
}

// StopChannels makes the program of each channel stand still.
func (s *Store) StopChannels() { s.signal(syscall.SIGSTOP) }

// ContinueChannels makes the program of each channel go on.
func (s *Store) ContinueChannels() { s.signal(syscall.SIGCONT) }

func (s *Store) signal(sig syscall.Signal) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, c := range s.pool.live {
		_ = syscall.Kill(c.pid, sig)
	}
}
