package foreign

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// fakeProcesses is processes that a test makes up.
type fakeProcesses map[int]*fakeProcess

type fakeProcess struct {
	read, dirtied uint64
	start         uint64
	descendants   []int
	ended         bool
	open          int
}

func (c *fakeProcess) bytes() (read, dirtied uint64, ok bool) { return c.read, c.dirtied, !c.ended }
func (c *fakeProcess) close()                                 { c.open-- }

func (t fakeProcesses) open(pid int, start uint64) (process, error) {
	c := t[pid]
	if c == nil || c.ended || start != 0 && c.start != start {
		return nil, errors.New("no such process")
	}
	c.open++
	return c, nil
}

func (t fakeProcesses) children(pid int, to []int) []int {
	if c := t[pid]; c != nil {
		to = append(to, c.descendants...)
	}
	return to
}

func pass(d time.Duration) time.Time {
	time.Sleep(d)
	return time.Now()
}

func TestCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := fakeProcesses{7: {read: 1000, dirtied: 50, start: 3}}
		c := &peerProcesses{processes: people}
		peer := shared.Process{PID: 7, Started: 3, Tier: 2}
		k := c.poll([]shared.Process{peer}, pass(0))
		require.Equal(t, diskwatch.PeerIO{Alive: 1, Changed: true}, k, "what was before does not count")
		people[7].read += 100
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 100, k.Read)
		require.False(t, k.Changed)
		require.Equal(t, [4]bool{2: true}, k.Rose)
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.Equal(t, [4]bool{}, k.Rose)

		// It starts a child, which counts from its birth, and one of that.
		people[8] = &fakeProcess{read: 30, descendants: []int{9}}
		people[9] = &fakeProcess{read: 4}
		people[7].descendants = []int{8}
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 134, k.Read)

		// The child ends. Its parent has waited for it, so that it is counted twice and never missed.
		people[8].read, people[8].ended, people[7].descendants = 40, true, nil
		people[7].read += 40
		k = c.poll([]shared.Process{peer}, pass(10*time.Millisecond))
		require.EqualValues(t, 174, k.Read)
		require.True(t, k.Changed)
		require.Zero(t, people[8].open)

		// What it has read offDevice is not for this device.
		peer.Elsewhere.Read = 25
		people[7].read += 25
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)

		// It writes, so late writes are attributed to it.
		tier, known := c.WriterTier(pass(0))
		require.True(t, known)
		require.Zero(t, tier)
		people[7].dirtied += 4096
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 4096, k.Dirtied)
		tier, known = c.WriterTier(pass(40 * time.Second))
		require.True(t, known)
		require.EqualValues(t, 2, tier)
		tier, _ = c.WriterTier(pass(2 * time.Second))
		require.Zero(t, tier)

		// It ends, and another gets its number: what was done stays done.
		people[7].ended = true
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)
		require.True(t, k.Changed)
		require.Zero(t, k.Alive)
		people[7] = &fakeProcess{read: 1 << 30, start: 4}
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)
		require.Zero(t, k.Alive)
		require.Zero(t, people[7].open)
		c.Close()
		require.Zero(t, people[9].open)
	})
}

func TestPassivePeerIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := fakeProcesses{7: {}}
		c := &peerProcesses{processes: people}
		peer := []shared.Process{{PID: 7, Tier: 0, Policy: iopolicy.Passive}}
		c.poll(peer, pass(0))
		people[7].dirtied = 4096
		k := c.poll(peer, pass(time.Second))
		require.Equal(t, [4]bool{}, k.Rose)
		_, known := c.WriterTier(pass(0))
		require.False(t, known)
		k = c.poll(nil, pass(time.Second))
		require.EqualValues(t, 4096, k.Dirtied, "it was let go, and what it did stays")
		require.Zero(t, people[7].open)
	})
}

func TestNewChildIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := fakeProcesses{7: {}}
		c := &peerProcesses{processes: people}
		peer := []shared.Process{{PID: 7, Tier: 3}}
		c.poll(peer, pass(0))
		people[7].read = 10
		c.poll(peer, pass(100*time.Millisecond))
		people[7].descendants, people[8] = []int{8}, &fakeProcess{read: 77}
		k := c.Recount(pass(time.Millisecond))
		require.EqualValues(t, 87, k.Read)
		require.True(t, k.Rose[3])
		people[8].descendants, people[9] = []int{9}, &fakeProcess{read: 1}
		require.EqualValues(t, 87, c.Recount(pass(time.Millisecond)).Read, "but not at every look")
		require.EqualValues(t, 88, c.Recount(pass(20*time.Millisecond)).Read)
	})
}
