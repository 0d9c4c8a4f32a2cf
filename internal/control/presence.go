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

// LockFile is the file in the state folder that the service keeps locked. It has its process ID.
const LockFile = "lock"

// Find asks the service, whose state folder is given, for its state. Without an answer, the overview says what is known
// of the service, and err what was wrong with the answer.
func (s Service) Find(ctx context.Context, stateDir string) (o event.Overview, err error) {
	got, err := s.Status(ctx)
	if err == nil {
		return event.Overview{Service: &got, State: event.ServiceRuns}, nil
	}
	gone := errors.Is(err, ErrNoDaemon)
	if gone {
		err = nil
	}
	pid, held := Holder(stateDir)
	switch {
	case held && suspended(pid):
		return event.Overview{State: event.ServiceStopped, PID: pid}, nil
	case held || !gone:
		return event.Overview{State: event.ServiceUnreachable, PID: pid}, err
	}
	if user, pid := foreign("/proc", os.Geteuid()); pid != 0 {
		return event.Overview{State: event.ServiceOfOther, PID: pid, User: user}, nil
	}
	return event.Overview{State: event.ServiceAbsent}, nil
}

// Holder returns whether a process holds the lock of a state folder, and its ID.
func Holder(stateDir string) (pid int, held bool) {
	f, err := os.Open(filepath.Join(stateDir, LockFile))
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
