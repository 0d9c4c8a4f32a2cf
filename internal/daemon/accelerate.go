package daemon

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// socketPoll is the time between two looks for the socket of a step that starts.
const socketPoll = 500 * time.Millisecond

// accelerate accelerates the steps that start until a time, and those that run; a zero time ends that. Jobs that are
// accelerated return by themselves, or when they are asked to.
func (s *service) accelerate(until time.Time) {
	if s.faster != nil {
		s.slower()
	}
	if s.faster = nil; until.IsZero() {
		return
	}
	s.faster, s.slower = context.WithDeadline(context.Background(), until)
	for _, j := range s.steps() {
		s.hasten(j.run.process)
	}
}

// hasten accelerates a step of the time in which steps are accelerated, as soon as it has a socket.
func (s *service) hasten(p Process) {
	if s.faster != nil && s.RuntimeDir != "" {
		go hasten(s.faster, s.RuntimeDir, p.PID())
	}
}

// hasten sets the policy of a process until the deadline of ctx, once it has a socket. It ends with the process or ctx.
func hasten(ctx context.Context, dir string, pid int) {
	until, _ := ctx.Deadline()
	tick := time.NewTicker(socketPoll)
	defer tick.Stop()
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		jobs, err := control.Jobs(dir)
		i := slices.IndexFunc(jobs, func(j control.Running) bool { return j.PID == pid })
		if err == nil && i >= 0 {
			if left := time.Until(until); left >= time.Second {
				_, _ = jobs[i].SetPolicy(ctx, iopolicy.Important, left) // it may have ended
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
