package others

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// town is processes that a test makes up.
type town map[int]*citizen

type citizen struct {
	read, dirtied uint64
	start         uint64
	kids          []int
	ended         bool
	open          int
}

func (c *citizen) bytes() (read, dirtied uint64, ok bool) { return c.read, c.dirtied, !c.ended }
func (c *citizen) close()                                 { c.open-- }

func (t town) open(pid int, start uint64) (process, error) {
	c := t[pid]
	if c == nil || c.ended || start != 0 && c.start != start {
		return nil, errors.New("no such process")
	}
	c.open++
	return c, nil
}

func (t town) children(pid int, to []int) []int {
	if c := t[pid]; c != nil {
		to = append(to, c.kids...)
	}
	return to
}

func pass(d time.Duration) time.Time {
	time.Sleep(d)
	return time.Now()
}

func TestCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := town{7: {read: 1000, dirtied: 50, start: 3}}
		c := &Company{procs: people}
		peer := Peer{PID: 7, Start: 3, Tier: 2}
		k := c.Look([]Peer{peer}, pass(0))
		require.Equal(t, Sum{Alive: 1, Changed: true}, k, "what was before does not count")
		people[7].read += 100
		k = c.Look([]Peer{peer}, pass(time.Second))
		require.EqualValues(t, 100, k.Read)
		require.False(t, k.Changed)
		require.Equal(t, [4]bool{2: true}, k.Rose)
		k = c.Look([]Peer{peer}, pass(time.Second))
		require.Equal(t, [4]bool{}, k.Rose)

		// It starts a child, which counts from its birth, and one of that.
		people[8] = &citizen{read: 30, kids: []int{9}}
		people[9] = &citizen{read: 4}
		people[7].kids = []int{8}
		k = c.Look([]Peer{peer}, pass(time.Second))
		require.EqualValues(t, 134, k.Read)

		// The child ends. Its parent has waited for it, so that it is counted twice and never missed.
		people[8].read, people[8].ended, people[7].kids = 40, true, nil
		people[7].read += 40
		k = c.Look([]Peer{peer}, pass(10*time.Millisecond))
		require.EqualValues(t, 174, k.Read)
		require.True(t, k.Changed)
		require.Zero(t, people[8].open)

		// What it has read elsewhere is not for this device.
		peer.Elsewhere = 25
		people[7].read += 25
		k = c.Look([]Peer{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)

		// It writes, and is to be blamed for late writes.
		tier, counts := c.Writer(pass(0))
		require.True(t, counts)
		require.Zero(t, tier)
		people[7].dirtied += 4096
		k = c.Look([]Peer{peer}, pass(time.Second))
		require.EqualValues(t, 4096, k.Dirtied)
		tier, counts = c.Writer(pass(40 * time.Second))
		require.True(t, counts)
		require.EqualValues(t, 2, tier)
		tier, _ = c.Writer(pass(2 * time.Second))
		require.Zero(t, tier)

		// It ends, and another gets its number: what was done stays done.
		people[7].ended = true
		k = c.Look([]Peer{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)
		require.True(t, k.Changed)
		require.Zero(t, k.Alive)
		people[7] = &citizen{read: 1 << 30, start: 4}
		k = c.Look([]Peer{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)
		require.Zero(t, k.Alive)
		require.Zero(t, people[7].open)
		c.Close()
		require.Zero(t, people[9].open)
	})
}

func TestPassivePeerIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := town{7: {}}
		c := &Company{procs: people}
		peer := []Peer{{PID: 7, Tier: 0, Passive: true}}
		c.Look(peer, pass(0))
		people[7].dirtied = 4096
		k := c.Look(peer, pass(time.Second))
		require.Equal(t, [4]bool{}, k.Rose)
		_, counts := c.Writer(pass(0))
		require.False(t, counts)
		k = c.Look(nil, pass(time.Second))
		require.EqualValues(t, 4096, k.Dirtied, "it was let go, and what it did stays")
		require.Zero(t, people[7].open)
	})
}

func TestNewChildIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := town{7: {}}
		c := &Company{procs: people}
		peer := []Peer{{PID: 7, Tier: 3}}
		c.Look(peer, pass(0))
		people[7].read = 10
		c.Look(peer, pass(100*time.Millisecond))
		people[7].kids, people[8] = []int{8}, &citizen{read: 77}
		k := c.Again(pass(time.Millisecond))
		require.EqualValues(t, 87, k.Read)
		require.True(t, k.Rose[3])
		people[8].kids, people[9] = []int{9}, &citizen{read: 1}
		require.EqualValues(t, 87, c.Again(pass(time.Millisecond)).Read, "but not at every look")
		require.EqualValues(t, 88, c.Again(pass(20*time.Millisecond)).Read)
	})
}
