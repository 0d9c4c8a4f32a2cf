package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Presence is what is known of the service.
type Presence struct {
	State event.ServiceState
	PID   int    // 0: unknown
	User  string // of another user's service
}

// lockFile is the file in the state folder that the service keeps locked. It has its process ID.
const lockFile = "lock"

// Find asks the service, whose state folder is given, for its state. Without an answer, the presence says why, and err
// what was wrong with the answer.
func (s Service) Find(ctx context.Context, stateDir string) (p Presence, d *event.Daemon, err error) {
	got, err := s.Status(ctx)
	if err == nil {
		return Presence{State: event.ServiceRuns, PID: got.PID}, &got, nil
	}
	gone := errors.Is(err, ErrNoDaemon)
	if gone {
		err = nil
	}
	pid, held := holder(filepath.Join(stateDir, lockFile))
	switch {
	case held && suspended(pid):
		return Presence{State: event.ServiceStopped, PID: pid}, nil, nil
	case held || !gone:
		return Presence{State: event.ServiceUnreachable, PID: pid}, nil, err
	}
	if user, pid := foreign("/proc", os.Geteuid()); pid != 0 {
		return Presence{State: event.ServiceOfOther, PID: pid, User: user}, nil, nil
	}
	return Presence{State: event.ServiceAbsent}, nil, nil
}

// holder returns whether a process holds the lock of a state folder, and its ID.
func holder(path string) (pid int, held bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }() // ends the lock
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0, false
	}
	text := make([]byte, 20)
	n, _ := f.Read(text) // without a number the process is unknown
	pid, _ = strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return pid, true
}
