package report

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// Stage is what a worker is doing, or what it is waiting for.
type Stage uint8

// The stages of a worker. Idle is first, so that a new worker is in it: it has nothing to do, as an uploader between
// two packs. The Wait stages name the resource that the worker waits for.
const (
	Idle     Stage = iota
	Scan           // open, list and stat directories
	Compare        // signatures and parent trees
	Read           // file data from the source
	Chunk          // cut points, IDs, lookups of known blobs
	Compress       // frames
	Seal           // encrypt and hash packs
	Store          // send to the store and read back the proof: the "data transfer time"
	Encode         // tree pages

	Fetch  // get from the store
	Unpack // decrypt, decompress, compare with the ID
	Write  // file data to the target of a restore
	Attrs  // metadata of a restore

	WaitScan   // for directories or batches to be found
	WaitRead   // for file data, or for readers to take more work
	WaitCPU    // for chunking, compression or sealing to take more work
	WaitStore  // for the store to take or deliver packs
	WaitWrite  // for the target of a restore to take data
	WaitMemory // for a buffer within the memory budget

	stageCount = iota
)

// StageTimes is worker time by stage.
type StageTimes [stageCount]time.Duration

// stageBits is the width of the stage in a Clock's state; the rest of the 64 bits are nanoseconds: 18 years.
const stageBits = 5

// Clock measures the time of one worker goroutine by stage. Enter, Current and Stop are called by that goroutine only.
type Clock struct {
	ledger  *Ledger
	name    string
	number  uint64        // in the order of Worker calls
	state   atomic.Uint64 // nanoseconds since the ledger's start at which the stage began << stageBits | stage
	spent   [stageCount]atomic.Int64
	visited atomic.Bool // a Visit is under way
	wanted  atomic.Bool // a viewer wants the current path
	path    atomic.Pointer[string]
}

// Worker starts a clock, in the stage Idle, for the calling goroutine. Workers of the same kind may share a name.
func (l *Ledger) Worker(name string) *Clock {
	c := &Clock{ledger: l, name: name}
	c.state.Store(uint64(l.since())<<stageBits | uint64(Idle))
	c.wanted.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started++
	c.number = l.started
	l.clocks[c] = struct{}{}
	return c
}

// Enter adds the time since the last call to the current stage, starts stage s, and returns the former one, so that a
// function can restore it: defer c.Enter(c.Enter(Store)). It costs one clock read and two atomic operations.
func (c *Clock) Enter(s Stage) Stage {
	at := c.ledger.since()
	old := c.state.Load()
	was := Stage(old & (1<<stageBits - 1))
	c.spent[was].Add(int64(at) - int64(old>>stageBits))
	c.state.Store(uint64(at)<<stageBits | uint64(s))
	return was
}

// Current offers the path of the worker. path is called only if a viewer wants a new one, a few times a second at most,
// so it may build the path from pieces.
func (c *Clock) Current(path func() string) {
	if c.wanted.Load() && c.wanted.CompareAndSwap(true, false) {
		p := path()
		c.path.Store(&p)
	}
}

// clockKey is the key of a worker's clock in a context.
type clockKey struct{}

// Within returns a context that leads to the clock, for what the worker calls and what cannot know its clock: see
// Visit.
func (c *Clock) Within(ctx context.Context) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// Visit puts the worker of ctx's clock into stage s until leave is called, once. If ctx has no clock, or another
// goroutine of the same worker is visiting, ok is false and the caller has to add its time with AddTime.
func Visit(ctx context.Context, s Stage) (leave func(), ok bool) {
	c, ok := ctx.Value(clockKey{}).(*Clock)
	if !ok || !c.visited.CompareAndSwap(false, true) {
		return func() {}, false
	}
	was := c.Enter(s)
	return func() {
		c.Enter(was)
		c.visited.Store(false)
	}, true
}

// Stop ends the worker's time. The clock must not be used afterwards.
func (c *Clock) Stop() {
	c.Enter(Idle)
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, running := l.clocks[c]; !running {
		return
	}
	delete(l.clocks, c)
	for s := range c.spent {
		l.ended[s] += time.Duration(c.spent[s].Load())
	}
}

// stage returns what the worker is doing and since when, in time since the ledger's start.
func (c *Clock) stage() (Stage, time.Duration) {
	v := c.state.Load()
	return Stage(v & (1<<stageBits - 1)), time.Duration(v >> stageBits)
}

// addTo adds the worker's times up to at.
func (c *Clock) addTo(t *StageTimes, at time.Duration) {
	s, since := c.stage()
	for i := range c.spent {
		t[i] += time.Duration(c.spent[i].Load())
	}
	t[s] += max(0, at-since)
}

// workers returns the clocks of the workers, in the order in which they started.
func (l *Ledger) workers() []*Clock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.clocks), func(a, b *Clock) int { return cmp.Compare(a.number, b.number) })
}

// at returns the path at which the worker is, "" if it has none, and asks for a newer one.
func (c *Clock) at() (path string) {
	if p := c.path.Load(); p != nil {
		if s, _ := c.stage(); s != Idle {
			path = *p
		}
	}
	c.wanted.Store(true)
	return path
}

// CurrentPaths returns the different paths that workers are at, in the order of the workers.
func (l *Ledger) CurrentPaths() []string {
	var paths []string
	for _, c := range l.workers() {
		if path := c.at(); path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Blocked counts the time until end is called as WaitStore instead of Compress, the stage of the caller's clock: the
// target takes packs more slowly than they are made.
func (l *Ledger) Blocked() (end func()) {
	l.block(1)
	return func() { l.block(-1) }
}

// block adds n to the callers that are blocked. The time of each is its end minus its start.
func (l *Ledger) block(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked += n
	at := time.Duration(n) * l.since()
	l.ended[WaitStore] -= at
	l.ended[Compress] += at
}

// AddTime adds time that something without a clock measured. A negative time corrects what a clock adds to the wrong
// stage; a stage that would have less than none has none.
func (l *Ledger) AddTime(s Stage, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[s] += took
}
