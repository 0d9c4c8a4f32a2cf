package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// nosy is a watcher that calls its gate, which no watcher may.
type nosy struct{ gate *iopolicy.Gate }

func (n *nosy) Look(iopolicy.Moment) iopolicy.Sighting {
	n.gate.Stats()
	return iopolicy.Sighting{}
}

func (*nosy) Interval() time.Duration { return 0 }

func TestWatchGatesFindsAGateThatIsEnteredTwice(t *testing.T) {
	w := &nosy{}
	w.gate = iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: w})
	pass := w.gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
	go pass.Begin(t.Context(), iopolicy.Op{})
	var found []string
	require.Eventually(t, func() bool {
		found = stuckGates(stacks())
		return len(found) == 1
	}, time.Minute, time.Millisecond)
	for _, call := range []string{"enters a gate twice", "(*Gate).Stats(", "(*nosy).Look(", "(*Gate).look(", "Begin("} {
		require.Contains(t, found[0], call)
	}
}

func TestWatchGatesFindsAGateThatStaysLocked(t *testing.T) {
	const gate, stack = "example.org/pkg/iopolicy.(*Gate).", "\nsync.(*Mutex).Lock(...)\n\t/go/sync/mutex.go:46\n"
	for head, want := range map[string]int{
		"goroutine 7 [sync.Mutex.Lock, 2 minutes]:":                    1,
		"goroutine 7 [sync.Mutex.Lock, 2 minutes, synctest bubble 3]:": 1,
		"goroutine 7 [sync.Mutex.Lock]:":                               0,
		"goroutine 7 [select, 2 minutes]:":                             0,
	} {
		require.Len(t, stuckGates(head+stack+gate+"boundary()\n\t/x.go:1\nexample.org/x.f()\n"), want, head)
		require.Empty(t, stuckGates(head+stack+"example.org/x.g()\n\t/x.go:1\n"+gate+"look()\n"), "another lock")
	}
}
