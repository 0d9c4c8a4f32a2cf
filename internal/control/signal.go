package control

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// OnSignal changes the policy of a job at each SIGUSR2: one step from throttle to utility, standard and important,
// and then back to throttle. Like any change without a time, it ends the time of a policy that was set for one. It
// reports each change to note. When ctx ends, SIGUSR2 is no longer caught.
func OnSignal(ctx context.Context, job *Job, note func(text string)) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-signals:
				step(job, note)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// step sets the next policy of a job.
func step(job *Job, note func(string)) {
	was := job.Policy()
	c, err := job.SetPolicy(next(was), 0)
	if err != nil {
		note("the policy is still " + was.String() + ": " + err.Error())
		return
	}
	note("the policy is now " + c.Policy + ", it was " + c.Was)
	for _, text := range c.Notes {
		note(text)
	}
}

// next returns the policy that follows a signal: the next better one, and Throttle after the best.
func next(p iopolicy.Policy) iopolicy.Policy {
	all := iopolicy.Policies()
	if at := slices.Index(all, p); at > 0 {
		return all[at-1]
	}
	return iopolicy.Throttle
}
