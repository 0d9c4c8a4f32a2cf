package sftp

import (
	"context"
	"io"
	"os/exec"
	"syscall"
)

// direct is a dialer that starts a program.
type direct func() (*stream, error)

func (d direct) channel(context.Context) (*stream, error) { return d() }
func (d direct) close()                                   {}

// Directly makes a store run an SFTP server as its child instead of ssh.
func (o Options) Directly(program string) Options {
	o.direct = direct(func() (*stream, error) { return newProgram(program) })
	return o
}

// Through is Directly with a line between the client and the server.
func (o Options) Through(program string,
	line func(in io.WriteCloser, out io.Reader) (io.WriteCloser, io.Reader)) Options {
	o.direct = direct(func() (*stream, error) {
		on, err := newProgram(program)
		if err == nil {
			on.in, on.out = line(on.in, on.out)
		}
		return on, err
	})
	return o
}

func newProgram(path string) (*stream, error) { return program(exec.Command(path)) }

// KillChannels kills the program of each channel and returns how many there were.
func (s *Store) KillChannels() int {
	live := s.pool.Live()
	for _, c := range live {
		c.kill()
	}
	return len(live)
}

// Groups returns the process groups of the channels.
func (s *Store) Groups() (groups []int) {
	for _, c := range s.pool.Live() {
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
	for _, c := range s.pool.Live() {
		_ = syscall.Kill(c.pid, sig)
	}
}
