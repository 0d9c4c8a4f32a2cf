package sftp

import "syscall"

// Directly makes a store run an SFTP server as its child instead of ssh.
func (o Options) Directly(program string) Options {
	o.direct = program
	return o
}

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
