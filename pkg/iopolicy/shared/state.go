package shared

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// tending is how often a State looks whether its file is still the one that others use, while it is used.
const tending = int64(time.Second)

// How often locks are asked for, a millisecond apart: at the start, and in the middle of somebody's I/O.
const (
	patient   = 500
	impatient = 1
)

// defaultSpacing is the period of tier 1 on a disk that turns, which is what an unknown medium counts as.
const defaultSpacing = 40 * time.Millisecond

// Options for Attach; the zero value is good.
type Options struct {
	// Policy is what others are told that this process has.
	Policy iopolicy.Policy
	// Spacing is the least time between slots of different tiers: the I/O period of tier 1 for the medium. A tier with
	// a shorter period has that instead. 0: 40 ms.
	Spacing time.Duration
	// Clock is for tests with a clock of their own; nil: the system's.
	Clock Clock
}

// State is a process's view of what it shares with others about one device. It is safe for concurrent use.
type State struct {
	dir, key string
	clock    clock
	spacing  atomic.Int64
	policy   atomic.Uint32
	pid      int
	started  int64

	now      atomic.Pointer[mapping]
	inflight [iopolicy.Tiers]atomic.Int64 // of this process; the file has copies
	read     atomic.Uint64
	written  atomic.Uint64
	tended   atomic.Int64 // when the file was looked at last
	err      atomic.Pointer[error]

	mu      sync.Mutex // for what follows, and for changing the mapping
	entries map[*Entry]int
	closed  bool
}

var _ iopolicy.Peers = (*State)(nil)

// Attach joins the processes that share the device of a key, by a file in dir (see RuntimeDir), and makes both if they are
// missing. The errors ErrUnsafe, ErrBusy and those of the file system leave the caller to go on without peers. Where a
// system cannot do it the error is errors.ErrUnsupported.
func Attach(dir, key string, opt Options) (*State, error) {
	if key == "" {
		return nil, ErrKey
	}
	if opt.Spacing <= 0 {
		opt.Spacing = defaultSpacing
	}
	s := &State{dir: dir, key: key, pid: os.Getpid(), entries: map[*Entry]int{}}
	s.spacing.Store(int64(opt.Spacing))
	s.policy.Store(uint32(opt.Policy))
	s.now.Store(alone())
	m, err := open(dir, key, patient)
	if err != nil {
		return nil, err
	}
	if s.started, err = startOf(s.pid); err != nil {
		return nil, fmt.Errorf("identify this process: %w", err)
	}
	if err := s.clock.start(opt.Clock); err != nil {
		return nil, err
	}
	s.tended.Store(s.clock.mono)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(m)
	return s, nil
}

// Close takes this process and what it announced, but for what was detached, out of the file. It must have no I/O in flight and
// begin none; what is called later is of no effect on others.
func (s *State) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := os.ErrClosed
	s.err.Store(&err)
	m := s.now.Swap(alone())
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	for _, i := range s.entries {
		m.give(i)
	}
	m.give(int(m.mine.Swap(-1)))
	return nil
}

// Err returns why this process shares nothing at the moment; nil: it does. It tries again each second that it is used.
func (s *State) Err() error {
	if err := s.err.Load(); err != nil {
		return fmt.Errorf("share the state of %s: %w", s.key, *err)
	}
	return nil
}

// SetSpacing changes Options.Spacing, when the medium has turned out to be another.
func (s *State) SetSpacing(d time.Duration) {
	if d > 0 {
		s.spacing.Store(int64(d))
	}
}

// SetPolicy changes what others are told that this process has.
func (s *State) SetPolicy(p iopolicy.Policy) {
	s.policy.Store(uint32(p))
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	if i := m.mine.Load(); i >= 0 {
		m.places[i].setPolicy(p)
	}
}

// AddElsewhere tells that bytes of this process went to other devices, for those who count what reaches this one: what a
// process is known to have moved, less these, is at most what it moved here.
func (s *State) AddElsewhere(b iopolicy.Bytes) {
	read, written := s.read.Add(b.Read), s.written.Add(b.Written)
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	if i := m.mine.Load(); i >= 0 {
		up(&m.places[i].read, read)
		up(&m.places[i].written, written)
	}
}

// up makes a sum at least v: another addition may have come in between.
func up(w *atomic.Uint64, v uint64) {
	for range tries {
		if old := w.Load(); old >= v || w.CompareAndSwap(old, v) {
			return
		}
	}
}

// enter makes m the mapping, with a slot for this process and for what it announced. The caller has s.mu.
func (s *State) enter(m *mapping) {
	s.now.Store(m)
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	s.settle(m)
	for e := range s.entries {
		s.entries[e] = m.take(e.owner)
	}
}

// settle gets this process a slot in m, if it can, and writes all that is known into it. The caller has s.mu.
func (s *State) settle(m *mapping) {
	if m.mine.Load() < 0 {
		o := owner{pid: int64(s.pid), started: s.started, manner: gate, policy: iopolicy.Policy(s.policy.Load())}
		m.mine.Store(int32(m.take(o)))
	}
	i := m.mine.Load()
	if i < 0 {
		return
	}
	m.used.Or(1 << i) // whoever took the bit away
	m.places[i].setPolicy(iopolicy.Policy(s.policy.Load()))
	up(&m.places[i].read, s.read.Load())
	up(&m.places[i].written, s.written.Load())
	for t := range s.inflight {
		s.show(m, iopolicy.Tier(t))
	}
}

// show copies the I/O in flight into the file. Whoever stored last has seen the newest count after it, so that the copy is
// right as soon as all have returned, whatever was in the file before.
func (s *State) show(m *mapping, t iopolicy.Tier) {
	i := m.mine.Load()
	if i < 0 {
		return
	}
	own := &s.inflight[t]
	for n := own.Load(); ; n = own.Load() {
		m.places[i].inflight[t].Store(n)
		if own.Load() == n {
			return
		}
	}
}

// tend looks after the file if that was not done for a second.
func (s *State) tend(now int64) {
	last := s.tended.Load()
	if now-last < tending || !s.tended.CompareAndSwap(last, now) || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	m := s.now.Load()
	if m.stale(s.dir, s.key) {
		next, err := open(s.dir, s.key, impatient)
		if err != nil {
			s.err.Store(&err)
			next = alone()
		} else {
			s.err.Store(nil)
		}
		s.enter(next)
		return
	}
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	s.settle(m)
}

// fell ends a call that touched m: it gives back the setting for faults, and if there was one in m, because the file was
// cut, goes on without the file. All else that went wrong goes its way.
func (s *State) fell(m *mapping, was bool, cause any) {
	debug.SetPanicOnFault(was)
	if cause == nil {
		return
	}
	if f, ok := cause.(interface{ Addr() uintptr }); !ok || !m.has(f.Addr()) {
		panic(cause)
	}
	err := ErrCut
	s.err.Store(&err)
	s.now.CompareAndSwap(m, alone())
	s.tended.Store(math.MinInt64 / 2) // at the next call
}
