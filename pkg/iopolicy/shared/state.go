package shared

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// refreshInterval is how often a State in use checks that its file is still the current one.
const refreshInterval = int64(time.Second)

// Attempts to take a lock, a millisecond apart: at the start, and during I/O.
const (
	patient   = 500
	impatient = 1
)

// defaultSpacing is the period of tier 1 on a rotational disk, which an unknown medium counts as.
const defaultSpacing = 40 * time.Millisecond

// Options for Attach; the zero value is valid.
type Options struct {
	// Policy is the published policy of this process.
	Policy iopolicy.Policy
	// Spacing is the least time between slots of different tiers: the I/O period of tier 1 for the medium. A tier with
	// a shorter period has that instead. 0: 40 ms.
	Spacing time.Duration
	// Clock is for tests with a clock of their own; nil: the system's.
	Clock Clock
}

// State is the view that a process has of the state shared for one device. It is safe for concurrent use.
type State struct {
	dir, key string
	clock    clock
	spacing  atomic.Int64
	policy   atomic.Uint32
	own      owner // its policy is policy

	now       atomic.Pointer[mapping]
	inflight  [iopolicy.Tiers]atomic.Int64 // of this process; copied into the file
	read      atomic.Uint64
	written   atomic.Uint64
	refreshed atomic.Int64 // last check of the file
	err       atomic.Pointer[error]

	mu     sync.Mutex // guards the fields below, and changes of the mapping
	closed bool
}

var _ iopolicy.Peers = (*State)(nil)

// Attach joins the processes that share the device of a key, by a file in dir (see RuntimeDir), and makes both if they
// are missing. After ErrUnsafe, ErrBusy or an error of the file system the caller can continue without peers.
func Attach(dir, key string, opt Options) (*State, error) {
	return join(dir, key, opt, os.Getpid(), gate)
}

// join attaches for a process.
func join(dir, key string, opt Options, pid int, kind uint64) (*State, error) {
	if key == "" {
		return nil, errors.New("no key for the device")
	}
	if opt.Spacing <= 0 {
		opt.Spacing = defaultSpacing
	}
	s := &State{dir: dir, key: key, own: owner{pid: int64(pid), kind: kind}}
	s.spacing.Store(int64(opt.Spacing))
	s.policy.Store(uint32(opt.Policy))
	s.now.Store(alone())
	m, err := open(dir, key, patient)
	if err != nil {
		return nil, err
	}
	if s.own.started, err = startOf(pid); err != nil {
		return nil, err
	}
	if err := s.clock.start(opt.Clock); err != nil {
		return nil, err
	}
	s.refreshed.Store(s.clock.mono)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(m)
	return s, nil
}

// Close removes the entry of the process from the file. It must have no I/O in flight and begin none; later calls do
// not affect others.
func (s *State) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	err := os.ErrClosed
	s.err.Store(&err)
	m := s.now.Swap(alone())
	defer runtime.KeepAlive(m)
	m.give(int(m.ownSlot.Swap(-1)))
}

// Err returns why this process shares nothing at present; nil: it does. It tries again each second that it is used.
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

// SetPolicy changes the published policy.
func (s *State) SetPolicy(p iopolicy.Policy) {
	s.policy.Store(uint32(p))
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	if i := m.ownSlot.Load(); i >= 0 {
		m.slots[i].setPolicy(p)
	}
}

// AddElsewhere publishes that bytes of this process went to other devices. Peers subtract them from the kernel's
// counters of this process.
func (s *State) AddElsewhere(b iopolicy.Bytes) {
	read, written := s.read.Add(b.Read), s.written.Add(b.Written)
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	if i := m.ownSlot.Load(); i >= 0 {
		up(&m.slots[i].read, read)
		up(&m.slots[i].written, written)
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

// enter makes m the mapping, with a slot for the process. The caller has s.mu.
func (s *State) enter(m *mapping) {
	s.now.Store(m)
	s.settle(m)
}

// settle assigns the process a slot in m, if possible, and writes its state into it. The caller has s.mu.
func (s *State) settle(m *mapping) {
	defer runtime.KeepAlive(m)
	if m.ownSlot.Load() < 0 {
		o := s.own
		o.policy = iopolicy.Policy(s.policy.Load())
		m.ownSlot.Store(int32(m.take(o)))
	}
	i := m.ownSlot.Load()
	if i < 0 {
		return
	}
	m.used.Or(1 << i) // it may have been cleared by another process
	m.slots[i].setPolicy(iopolicy.Policy(s.policy.Load()))
	up(&m.slots[i].read, s.read.Load())
	up(&m.slots[i].written, s.written.Load())
	for t := range s.inflight {
		s.show(m, iopolicy.Tier(t))
	}
}

// show copies the I/O in flight into the file. Of concurrent calls, the last to store has seen the newest count after
// its store, so the copy is right once all have returned.
func (s *State) show(m *mapping, t iopolicy.Tier) {
	i := m.ownSlot.Load()
	if i < 0 {
		return
	}
	own := &s.inflight[t]
	for n := own.Load(); ; n = own.Load() {
		m.slots[i].inflight[t].Store(n)
		if own.Load() == n {
			return
		}
	}
}

// refresh checks the file if that was not done for a second.
func (s *State) refresh(now int64) {
	last := s.refreshed.Load()
	if now-last < refreshInterval || !s.refreshed.CompareAndSwap(last, now) || !s.mu.TryLock() {
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
	s.settle(m)
}
