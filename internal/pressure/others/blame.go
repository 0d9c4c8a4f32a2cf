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

// Here tells whether a file system or block device with the number dev, major<<32 | minor, lies on the device in question.
// !known: that cannot be told.
type Here func(dev uint64) (here, known bool)

const (
	// asked is how often the processes are looked at, however often somebody asks: one costs some 10 us.
	asked = time.Second
	// named is how many culprits are named at most.
	named = 16
	// searched is how many processes are asked for their open files, and opened how many files of each are looked at. Who
	// moved less than so many others did is not named.
	searched, opened = 20, 1024
	// kernel is who works in the name of programs: write-back, journals, loop devices.
	kernel = "the kernel, writing back for others"
	// unnamed is who is left: what nobody can be blamed for that may be looked at.
	unnamed = "others that could not be seen"
)

// place is where a process was seen to work.
type place uint8

const (
	anywhere  place = iota // no evidence: it may be here
	here                   // it had something open on the device
	elsewhere              // it had something open on other devices only
)

// thread is what one thread has moved.
type thread struct {
	tid   int
	bytes uint64
}

// used is what one process has moved.
type used struct {
	start  uint64
	kernel bool // a thread of the kernel
	// total is what it has moved, its ended threads, and the children it has waited for.
	total   uint64
	threads []thread
	// faults were those of the children it has waited for. A child has some, so that as long as they stay the same, a rise
	// of total is its own. !settled: they changed while total was read.
	faults  uint64
	settled bool
	rose    uint64 // what it has moved itself since it was looked at before
	place   place
}

// since fills in what u has moved itself since it was old; known: old is not merely the zero value.
func (u *used) since(old used, known bool) {
	if known && old.start != u.start { // got the number of another
		old, known = used{}, false
	}
	before := make(map[int]uint64, len(old.threads))
	for _, t := range old.threads {
		before[t.tid] = t.bytes
	}
	u.rose, u.place = 0, old.place
	for _, t := range u.threads {
		was := before[t.tid]
		if t.bytes < was { // another thread with that number
			was = 0
		}
		u.rose += t.bytes - was
	}
	// Threads that have ended are missing there, but not here.
	if u.settled && u.faults == old.faults && (old.settled || !known) {
		u.rose = max(u.rose, less(u.total, old.total))
	}
	u.rose = min(u.rose, less(u.total, old.total))
}

// inhabitants is all processes of a machine.
type inhabitants interface {
	// scan looks at all. Whoever's total is as before is as it was before but has not risen. Those of the first scan have
	// not risen either: before is nil.
	scan(before map[int]used) map[int]used
	// where tells where a process works by what it has open.
	where(pid int, on Here) place
	name(pid int) string
}

// Blamer compares what processes have moved. Its zero value is ready. It is not safe for concurrent use.
type Blamer struct {
	Here Here // nil: every device is the one in question

	at      time.Time
	before  map[int]used
	strange uint64
	last    []Culprit
}

// Ask returns the processes that have moved most since it was last called, but for those that work on other devices as far
// as their open files tell; how much of what the others moved was here the kernel does not tell. What a process has moved
// does not contain what its children have. The first call only begins to compare and returns nothing, and calls within a
// second return the same again. Only root sees processes of other users; what of the strange bytes, the sum of what others
// have moved on a device so far, is more than what those did that can be seen, is put down to nobody by name.
func (b *Blamer) Ask(now time.Time, strange uint64, peers []Peer) []Culprit {
	return b.ask(now, strange, peers, hostCrowd())
}

// ask compares at most once in a while.
func (b *Blamer) ask(now time.Time, strange uint64, peers []Peer, all inhabitants) []Culprit {
	if !b.at.IsZero() && now.Sub(b.at) < asked {
		return slices.Clone(b.last)
	}
	after := all.scan(b.before)
	first := b.before == nil
	moved := less(strange, b.strange)
	b.at, b.before, b.strange, b.last = now, after, strange, nil
	if first {
		return nil
	}
	found, sum, byKernel := b.pick(after, peers, all)
	// The kernel's bytes are mostly those of the named once more: what the file of a loop device reads, a program has read.
	limit := less(moved, sum)
	if strange == 0 { // nothing is seen of the device
		limit = less(byKernel, sum)
	}
	byKernel = min(byKernel, limit)
	for name, bytes := range map[string]uint64{kernel: byKernel, unnamed: less(moved, sum+byKernel)} {
		if bytes > 0 {
			found = append(found, Culprit{Name: name, Bytes: bytes})
		}
	}
	slices.SortFunc(found, func(a, b Culprit) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Name, b.Name))
	})
	b.last = found[:min(len(found), named)]
	return slices.Clone(b.last)
}

// pick returns who of all has moved most and may have done it here, and the sums of those and of the kernel's threads.
func (b *Blamer) pick(after map[int]used, peers []Peer, all inhabitants) (found []Culprit, sum, byKernel uint64) {
	var risen []int
	for pid, u := range after {
		switch {
		case u.rose == 0:
		case u.kernel:
			byKernel += u.rose
		default:
			risen = append(risen, pid)
		}
	}
	slices.SortFunc(risen, func(p, q int) int {
		return cmp.Or(cmp.Compare(after[q].rose, after[p].rose), cmp.Compare(p, q))
	})
	tiers := map[int]iopolicy.Tier{}
	for _, p := range peers {
		tiers[p.PID] = p.Tier
	}
	for _, pid := range risen[:min(len(risen), searched)] {
		u := after[pid]
		if b.Here != nil {
			if seen := all.where(pid, b.Here); seen != anywhere {
				u.place = seen // and otherwise where it was before
			}
			after[pid] = u
		}
		if u.place == elsewhere {
			continue
		}
		sum += u.rose
		found = append(found, Culprit{pid, all.name(pid), u.rose, tiers[pid]})
	}
	return found, sum, byKernel
}
