package throttle

import (
	"math"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// crowd is a disk that others use without a pause, or not at all.
type crowd struct {
	busy atomic.Bool
	last iopolicy.Moment
}

func (c *crowd) Interval() time.Duration { return 5 * time.Millisecond }

func (c *crowd) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	if c.busy.Load() {
		s.Newest[0] = m.At
	}
	if m.Inflight == 0 && c.last.Inflight == 0 && m.Begun == c.last.Begun {
		s.Gap = m.At.Sub(c.last.At)
		s.IOs = uint64(20_000 * s.Gap.Seconds())
	}
	c.last = m
	return s
}

// read is one small read.
func read(t *testing.T, pass *iopolicy.Pass) {
	g, err := pass.Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096, Certain: true})
	require.NoError(t, err)
	time.Sleep(100 * time.Microsecond)
	g.End(4096)
}

// TestTheProcessStepsAside: beside others that use the disk without a pause the process keeps to one processor, also
// with a gate that grants everything; after they have ended it has all it had.
func TestTheProcessStepsAside(t *testing.T) {
	testkit.Slow(t)
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &all))
	if all.Count() < 2 {
		t.Skip("needs two processors")
	}
	settings := iopolicy.DefaultSettings()
	settings.MaxImpact = 0.05
	disk, free := &crowd{}, iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: settings})
	disk.busy.Store(true)
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: settings, Watcher: disk})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
	m := &Manager{}
	m.entries.Store(&[]*entry{{gate: gate}, {gate: free}})
	a, part := aside{share: m.share}, -1.0
	a.other = func(granted float64) { part = granted }
	granted := func() float64 { // of the last choice, which may be under way
		a.mu.Lock()
		defer a.mu.Unlock()
		return part
	}
	var now unix.CPUSet
	becomes := func(n int) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); now.Count() != n; {
			require.Less(t, time.Now(), end, "%d processors", now.Count())
			read(t, pass)
			a.follow(time.Now())
			require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &now))
		}
	}
	one := int(math.Ceil(settings.MaxImpact * float64(all.Count()))) // of all the disk, since others lose all of it
	becomes(one)
	require.InDelta(t, settings.MaxImpact, granted(), 0.05)
	disk.busy.Store(false)
	becomes(all.Count())
	require.Equal(t, 1.0, granted())
	disk.busy.Store(true)
	becomes(one)
	a.end()
	require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &now))
	require.Equal(t, all, now, "at the end of a job")
}
