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
func OnSignal(ctx context.Context, job Job, note func(text string)) {
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
func step(job Job, note func(string)) {
	was := job.Status().Policy
	p := next(was)
	notes, err := job.SetPolicy(p, 0)
	if err != nil {
		note("the policy is still " + was + ": " + err.Error())
		return
	}
	note("the policy is now " + p.String() + ", it was " + was)
	for _, text := range notes {
		note(text)
	}
}

// next returns the policy that follows a signal: the next better one, and Throttle after the best.
func next(word string) iopolicy.Policy {
	all := iopolicy.Policies()
	p, err := iopolicy.ParsePolicy(word)
	if at := slices.Index(all, p); err == nil && at > 0 {
		return all[at-1]
	}
	return iopolicy.Throttle
}
