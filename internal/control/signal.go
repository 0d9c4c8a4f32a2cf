package control

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// OnSignal changes the policy of a job whenever the process gets SIGUSR2: one step from throttle over utility and
// standard to important, and from there back to throttle. What came of it is told to note. It ends with ctx, and so does
// the signal's being caught; until then a SIGUSR2 does not kill the process.
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

// step gives a job the next policy.
func step(job Job, note func(string)) {
	was := job.Status().Policy
	p := next(was)
	notes, err := job.SetPolicy(p)
	if err != nil {
		note("the policy is still " + was + ": " + err.Error())
		return
	}
	note("the policy is now " + p.String() + ", it was " + was)
	for _, text := range notes {
		note(text)
	}
}

// next returns the policy that follows a signal.
func next(word string) iopolicy.Policy {
	p, err := iopolicy.ParsePolicy(word)
	if err != nil {
		return iopolicy.Throttle
	}
	switch p {
	case iopolicy.Throttle:
		return iopolicy.Utility
	case iopolicy.Utility:
		return iopolicy.Standard
	case iopolicy.Standard:
		return iopolicy.Important
	case iopolicy.Important, iopolicy.Passive:
	}
	return iopolicy.Throttle
}
