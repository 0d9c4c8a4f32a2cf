package priority

import (
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// computing is the threads that Compute has taken. The process' mu guards all but changes.
type computing struct {
	policy  iopolicy.Policy
	tids    map[int]bool  // true: it computes; false: it is about to end, and may be idle until then
	busy    int           // how many compute
	quiet   bool          // threads that wait for a disk have idle scheduling too
	changes atomic.Uint64 // of the policy
}

// littlePart and muchPart are the parts of a disk up to which and from which threads that wait for it have idle
// scheduling too, while others use it. Between them batch threads get more done, at little cost to others; with more
// than muchPart of a disk what a job waits for is the processor.
const littlePart, muchPart = 1.0 / 3, 3.0 / 4

// set records the policy that is about to be applied.
func (c *computing) set(policy iopolicy.Policy) {
	if policy != c.policy {
		c.policy = policy
		c.changes.Add(1)
	}
}

// forget removes threads that have ended. tids are those that exist.
func (c *computing) forget(tids []int) {
	maps.DeleteFunc(c.tids, func(tid int, computes bool) bool { return !computes && !slices.Contains(tids, tid) })
}

// Compute calls work, which computes and seldom waits. Under Throttle it is on a thread of its own, with idle
// scheduling, while the other threads have batch scheduling. So a thread that a disk has answered runs at once in its
// place. Among threads of one kind it would wait for the scheduler's next tick. docs/adr/0009 has the figures.
//
// work returns soon after over reports true: the policy has changed. The thread ends with it, since it may not be
// allowed to leave idle scheduling.
func (p *Process) Compute(work func(over func() bool)) {
	if p == nil {
		work(func() bool { return false })
		return
	}
	begun := p.changes.Load()
	over := func() bool { return p.changes.Load() != begun }
	if !p.idles() {
		work(over)
		return
	}
	onOwnThread(func() {
		tid := unix.Gettid()
		if p.take(tid) {
			defer p.leave(tid)
		}
		work(over)
	})
}

// idles reports whether threads that compute have idle scheduling.
func (p *Process) idles() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known && p.policy == iopolicy.Throttle
}

// take gives a thread idle scheduling, and reports whether it has that now.
func (p *Process) take(tid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy != iopolicy.Throttle {
		return false
	}
	before, err := readState(tid)
	if err != nil || setSched(tid, before.idle().sched) != nil {
		return false
	}
	if p.tids == nil {
		p.tids = map[int]bool{}
	}
	p.tids[tid] = true
	if p.busy++; p.busy == 1 {
		p.share()
	}
	return true
}

// leave notes that a thread is about to end.
func (p *Process) leave(tid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tids[tid] = false
	if p.busy--; p.busy == 0 {
		p.share()
	}
}

// Granted notes the part of a disk that the job has, 0 to 1; 1: others do not use it. With little of it, the threads
// that wait for the disk have idle scheduling as well, where they may leave it: what others lose to them would be taken
// for a loss at the disk, and the job would get even less. With much of it, others read seldom, and each of their reads
// may wait for such a thread until the scheduler's next tick. docs/adr/0009 has the figures.
func (p *Process) Granted(part float64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if quiet := part <= littlePart || part >= muchPart && part < 1; quiet != p.quiet {
		p.quiet = quiet
		if p.busy > 0 {
			p.share()
		}
	}
}

// share gives the other threads their scheduling, once the first thread computes and after the last. p.mu is held.
func (p *Process) share() {
	if p.idle { // else they have batch scheduling in any case
		_ = untilQuiet(func() (bool, error) { return p.pass(p.policy, &Applied{}) })
	}
}
