package others

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Culprit is somebody who has used a device since the last question.
type Culprit struct {
	PID   int    // 0: nobody who can be named
	Name  string // of the program
	Bytes uint64 // read and made dirty, on all devices
	Tier  iopolicy.Tier
}

const (
	// asked is how often the processes are looked at, however often somebody asks: one costs some 5 us.
	asked = time.Second
	// named is how many culprits are named at most.
	named = 16
	// unnamed is who is left: what nobody can be blamed for that may be looked at.
	unnamed = "the kernel, or processes of other users"
)

// used is what one process has moved.
type used struct {
	name  string
	start uint64
	bytes uint64
}

// Blamer compares what processes have moved. Its zero value is ready. It is not safe for concurrent use.
type Blamer struct {
	at      time.Time
	before  map[int]used
	strange uint64
	last    []Culprit
}

// Ask returns the processes that have moved most since it was last called, on any device: the kernel does not tell on
// which. The first call only begins to compare and returns nothing, and calls within a second return the same again. Only
// root sees processes of other users; what of the strange bytes, the sum of what others have moved on a device so far, is
// more than what those did that can be seen, is put down to nobody by name.
func (b *Blamer) Ask(now time.Time, strange uint64, peers []Peer) []Culprit {
	return b.ask(now, strange, peers, scanProcesses)
}

// ask compares at most once in a while.
func (b *Blamer) ask(now time.Time, strange uint64, peers []Peer, scan func() map[int]used) []Culprit {
	if !b.at.IsZero() && now.Sub(b.at) < asked {
		return slices.Clone(b.last)
	}
	first := b.before == nil
	after := scan()
	tiers := map[int]iopolicy.Tier{}
	for _, p := range peers {
		tiers[p.PID] = p.Tier
	}
	var found []Culprit
	var sum uint64
	for pid, u := range after {
		old, known := b.before[pid]
		if known && old.start != u.start {
			old = used{}
		}
		if u.bytes <= old.bytes || first {
			continue
		}
		sum += u.bytes - old.bytes
		found = append(found, Culprit{pid, u.name, u.bytes - old.bytes, tiers[pid]})
	}
	if rest := less(strange-min(strange, b.strange), sum); rest > 0 && !first {
		found = append(found, Culprit{Name: unnamed, Bytes: rest})
	}
	slices.SortFunc(found, func(a, b Culprit) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID))
	})
	b.at, b.before, b.strange = now, after, strange
	b.last = found[:min(len(found), named)]
	return slices.Clone(b.last)
}
