package model

import (
	"flag"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

var wide = flag.Bool("wide", false, "visit the larger worlds, which takes minutes and gigabytes")

// next calls visit for each state that may follow one.
func (b *bounds) next(s state, visit succ) {
	for i := range b.writers {
		b.writer(s, i, visit)
	}
	for i := range b.prunes {
		b.pruner(s, i, visit)
	}
	for i := range s.pending {
		if s.pending[i] {
			n := s
			n.pending[i] = false
			n.put(b, i)
			n.w[i] = writer{pc: wDead}
			visit('-', [...]string{"a late snapshot of A arrives", "a late snapshot of B arrives"}[i], n)
		}
	}
	if s.drops < b.forgets {
		for i := range s.snaps {
			if s.snaps[i].there {
				n := s
				n.snaps[i].there, n.drops = false, s.drops+1 // a writer may have listed it
				visit('-', "snapshot "+"012"[i:i+1]+" is forgotten", n)
			}
		}
	}
	b.time(s, visit)
}

func (b *bounds) time(s state, visit succ) {
	if s.tick < b.ticks {
		n := s
		n.now, n.tick, n.old = s.now+max(1, b.tickLength), s.tick+1, s.view()
		n.lateTick(b)
		visit('-', "time passes", n)
	}
	if s.steps < b.steps {
		n := s
		n.now, n.steps = s.now+stepTick, s.steps+1
		visit('-', "the clock of the target steps forward", n)
		n.now = s.now - stepTick
		visit('-', "the clock of the target steps back", n)
	}
}

// lateTick ends the time in which what a dead writer has sent can arrive.
func (s *state) lateTick(b *bounds) {
	if s.pending[0] || s.pending[1] {
		if s.late++; s.late > b.late {
			s.pending = [2]bool{}
		}
	}
}

// visited are the states of a world in the order in which they were found, and an open hash table of their places. None
// of it has pointers, which the garbage collector would follow through gigabytes.
type visited struct {
	all   []state
	from  []uint32 // the place of the state from which one was found
	table []uint32 // places plus 1; 0 is free
	seed  maphash.Seed
}

func (v *visited) add(s *state, from int) {
	if 2*len(v.all) >= len(v.table) {
		v.table = make([]uint32, max(1<<10, 4*len(v.table)))
		for i := range v.all {
			*v.slot(&v.all[i]) = uint32(i + 1)
		}
	}
	if slot := v.slot(s); *slot == 0 {
		v.all, v.from = append(v.all, *s), append(v.from, uint32(from))
		*slot = uint32(len(v.all))
	}
}

// slot is that of a state, or the free one where it belongs.
func (v *visited) slot(s *state) *uint32 {
	mask := uint64(len(v.table) - 1)
	for at := maphash.Comparable(v.seed, *s) & mask; ; at = (at + 1) & mask {
		if slot := &v.table[at]; *slot == 0 || v.all[*slot-1] == *s {
			return slot
		}
	}
}

// trace is the way by which a state was found.
func (v *visited) trace(b *bounds, to int) (trace []string) {
	for ; to != 0; to = int(v.from[to]) {
		label := ""
		b.next(v.all[v.from[to]], func(who rune, what string, n state) {
			if label == "" && n == v.all[to] {
				label = string(who) + " " + what
			}
		})
		trace = append(trace, label)
	}
	slices.Reverse(trace)
	return trace
}

// explore visits every state, nearest first, and returns the shortest way to a broken one.
func (b *bounds) explore(most int) (trace []string, states int, complete bool) {
	v := visited{seed: maphash.MakeSeed()}
	s := start()
	v.add(&s, 0)
	for at := 0; at < len(v.all); at++ {
		if at >= most {
			return nil, len(v.all), false
		}
		if s = v.all[at]; b.broken(&s) >= 0 {
			return v.trace(b, at), len(v.all), true
		}
		b.next(s, func(_ rune, _ string, n state) { v.add(&n, at) })
	}
	return nil, len(v.all), true
}

// wander follows random ways until time is up.
func (b *bounds) wander(rng *rand.Rand, until time.Time) (trace []string, states int) {
	var found []state
	var labels []string
	for time.Now().Before(until) {
		s := start()
		trace = trace[:0]
		for {
			found, labels = found[:0], labels[:0]
			b.next(s, func(who rune, what string, n state) {
				found, labels = append(found, n), append(labels, string(who)+" "+what)
			})
			if len(found) == 0 {
				break
			}
			n := rng.IntN(len(found))
			s, trace, states = found[n], append(trace, labels[n]), states+1
			if b.broken(&s) >= 0 {
				return trace, states
			}
		}
	}
	return nil, states
}

func explored(t *testing.T, b *bounds, most int) (trace []string, complete bool) {
	t.Helper()
	begun := time.Now()
	trace, states, complete := b.explore(most)
	t.Logf("%d states, complete: %v, %v\n\t%s", states, complete, time.Since(begun).Round(time.Millisecond),
		strings.Join(trace, "\n\t"))
	return trace, complete
}

// worlds are small enough to be visited wholly in seconds.
var worlds = map[string]bounds{
	"clock steps":  {writers: 1, prunes: 1, steps: 2, crashes: 1, forgets: 1},
	"lost lease":   {writers: 2, prunes: 1, ticks: 1, tickLength: 4, forgets: 1, parents: true},
	"fence of old": {writers: 1, prunes: 2, ticks: 2, tickLength: 10, forgets: 1, inTurn: true},
	"lagging":      {writers: 1, prunes: 1, ticks: 2, forgets: 1, lag: true, parents: true},
	"late":         {writers: 1, prunes: 1, ticks: 4, crashes: 1, late: 2, forgets: 1, tight: true},
	"repack":       {writers: 1, prunes: 2, crashes: 1, forgets: 1, repack: true, parents: true, tight: true},
	"two and two":  {writers: 2, prunes: 2, forgets: 1},
	"two prunes":   {writers: 1, prunes: 2, ticks: 1, tickLength: 4, forgets: 1},
	"quick":        {writers: 1, prunes: 1, steps: 2, crashes: 1, forgets: 1, quick: true},
	"quick late":   {writers: 1, prunes: 1, ticks: 4, crashes: 1, late: 2, forgets: 1, tight: true, quick: true},
	"quick fence":  {writers: 1, prunes: 2, ticks: 2, tickLength: 10, forgets: 1, inTurn: true, quick: true},
	"quick lost":   {writers: 2, prunes: 1, ticks: 1, tickLength: 4, parents: true, quick: true},
	"early":        {writers: 1, prunes: 1, steps: 1, crashes: 1, forgets: 2, parents: true, quick: true, early: true},
	"early tight":  {writers: 1, prunes: 2, forgets: 1, parents: true, tight: true, early: true},
	"early two":    {writers: 2, prunes: 1, forgets: 2, parents: true, early: true},
	"unreadable mark": {writers: 1, prunes: 2, ticks: 1, tickLength: 4, crashes: 1, forgets: 1, torn: 2, parents: true,
		hold: true},
}

// wideWorlds are not: what is not visited in time is left out, and said.
var wideWorlds = map[string]bounds{
	"clock steps": {writers: 1, prunes: 2, steps: 2, crashes: 1, forgets: 1},
	"lost lease":  {writers: 2, prunes: 2, ticks: 2, tickLength: 4, crashes: 1, forgets: 1, parents: true, repack: true},
	"lagging":     {writers: 2, prunes: 1, ticks: 3, forgets: 2, lag: true, parents: true},
	"late":        {writers: 2, prunes: 1, ticks: 5, crashes: 1, late: 2, forgets: 1, parents: true},
	"unreadable mark": {writers: 2, prunes: 2, ticks: 3, tickLength: 2, crashes: 2, forgets: 2, torn: 3, parents: true,
		repack: true, lag: true, hold: true},
	"early and quick": {writers: 2, prunes: 2, ticks: 2, tickLength: 4, crashes: 1, forgets: 3, parents: true,
		repack: true, tight: true, quick: true, early: true},
	"all together": {writers: 2, prunes: 2, ticks: 4, crashes: 2, late: 1, forgets: 3, parents: true,
		repack: true, lag: true, tight: true},
}

const (
	mostStates = 4_000_000
	mostWide   = 10_000_000
)

func TestNoSnapshotIsBroken(t *testing.T) {
	testkit.Slow(t)
	for name, b := range worlds {
		t.Run(name, func(t *testing.T) {
			b.mends = allMends
			trace, complete := explored(t, &b, mostStates)
			require.Empty(t, trace)
			require.True(t, complete, "the world is too large for this test")
		})
	}
}

// TestNoSnapshotIsBrokenInWideWorlds follows random ways through larger worlds, and with -wide visits them as far as it
// can.
func TestNoSnapshotIsBrokenInWideWorlds(t *testing.T) {
	testkit.Slow(t)
	const each = 300 * time.Millisecond
	for name, b := range wideWorlds {
		t.Run(name, func(t *testing.T) {
			b.mends = allMends
			seed := uint64(time.Now().UnixNano())
			trace, states := b.wander(rand.New(rand.NewPCG(seed, 0)), time.Now().Add(each))
			t.Logf("%d steps of random ways, seed %d", states, seed)
			require.Empty(t, trace, "seed %d", seed)
			if *wide {
				trace, _ = explored(t, &b, mostWide)
				require.Empty(t, trace)
			}
		})
	}
}

// TestMends takes one part of the protocol out at a time, and demands that the checker finds a broken snapshot.
func TestMends(t *testing.T) {
	testkit.Slow(t)
	for _, c := range []struct {
		name, world string
		out         func(m *mends)
	}{
		{"a dead prune leaves the leases of dead writers", "clock steps", func(m *mends) { m.fence = false }},
		{"a renewal replaces a fence", "clock steps", func(m *mends) { m.claim = false }},
		{"a fence does without the name that a renewal has", "clock steps", func(m *mends) { m.yield = false }},
		{"a fence is removed at once", "clock steps", func(m *mends) { m.lasting = false }},
		{"a writer does not notice that its lease has expired", "fence of old", func(m *mends) { m.expire = false }},
		{"a writer trusts the time after it has published", "clock steps", func(m *mends) { m.confirm = false }},
		{"any snapshot is a parent", "lost lease", func(m *mends) { m.gap = false }},
		{"listings are believed", "lagging", func(m *mends) { m.settle = false }},
		{"a lease that is not found has ended", "lagging", func(m *mends) { m.gone = false }},
		{"a late snapshot of a writer known to be dead", "late", func(m *mends) { m.localDie = true }},
		{"a writer that cannot read a mark ignores prunes", "unreadable mark", func(m *mends) { m.idle = false }},
		{"a writer acknowledges a mark that it cannot read", "unreadable mark",
			func(m *mends) { m.unlisted = false }},
		{"a second look relies on the index of the first", "two prunes", func(m *mends) { m.fresh = false }},
		{"a second look follows no new snapshot", "two and two", func(m *mends) { m.follow = false }},
		{"a mark goes while a writer that has not read it begins", "early two", func(m *mends) { m.reread = false }},
		{"a quick writer does not look for a fence", "quick", func(m *mends) { m.confirm = false }},
		{"a quick writer does not notice that its lease has expired", "quick fence", func(m *mends) { m.expire = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := worlds[c.world]
			b.mends = allMends
			c.out(&b.mends)
			trace, _ := explored(t, &b, mostStates)
			require.NotEmpty(t, trace, "the checker misses what this part of the protocol prevents")
		})
	}
}
