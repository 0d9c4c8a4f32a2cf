package gatehouse

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/pressure"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// asking is how far apart the processes of the machine are looked at: it costs some 10 us for each of them.
const asking = time.Second

// named is how many processes a report names for one device.
const named = 5

// remembered is for how long it is remembered what a device number means.
const remembered = time.Minute

// suspects are the processes that moved something while windows were open.
type suspects struct {
	always bool // look from the beginning, not only once somebody was seen

	mu    sync.Mutex
	busy  bool
	next  time.Time
	moved map[pressure.Culprit]uint64 // bytes, by process: Bytes and Tier of the key are zero
}

// witness is a watcher that asks who it was when it has seen somebody.
type witness struct {
	*pressure.Watcher
	suspects *suspects
}

// Look asks on a goroutine of its own: the gate must not wait for it.
func (w witness) Look(m iopolicy.Moment) iopolicy.Sighting {
	s := w.Watcher.Look(m)
	seen := w.suspects.always || s.Inflight[0] || !s.Newest[0].IsZero()
	if seen && w.suspects.due(m.At) {
		go w.suspects.accuse(w.Watcher.Blame)
	}
	return s
}

// due reports whether it is time to ask again; whoever is told so must.
func (s *suspects) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || now.Before(s.next) {
		return false
	}
	s.busy, s.next = true, now.Add(asking)
	return true
}

func (s *suspects) accuse(ask func() []pressure.Culprit) {
	found := ask()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if s.moved == nil {
		s.moved = map[pressure.Culprit]uint64{}
	}
	for _, c := range found {
		s.moved[pressure.Culprit{PID: c.PID, Name: c.Name}] += c.Bytes
	}
}

// list returns who moved most.
func (s *suspects) list() []report.Culprit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []report.Culprit
	for who, bytes := range s.moved {
		if bytes > 0 {
			all = append(all, report.Culprit{PID: who.PID, Name: who.Name, Bytes: bytes})
		}
	}
	slices.SortFunc(all, func(a, b report.Culprit) int {
		unnamed := func(c report.Culprit) int { // come last: who reads this looks for a program
			if c.PID == 0 {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(unnamed(a), unnamed(b)), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID))
	})
	return all[:min(len(all), named)]
}

// numbers returns what tells whether a device number is that of r. It is asked by one goroutine at a time, and remembers for
// a while: another device may get the number.
func (h *House) numbers(r *room) pressure.Here {
	type answer struct{ here, known bool }
	var asked map[uint64]answer
	var since time.Time
	return func(dev uint64) (here, known bool) {
		if walked, known := h.walked(dev); known {
			return walked == r, true
		}
		if len(r.info.Leaves) == 0 && r.info.Server == "" { // nothing to compare with
			return false, false
		}
		if asked == nil || time.Since(since) > remembered {
			asked, since = map[uint64]answer{}, time.Now()
		}
		a, done := asked[dev]
		if !done {
			if info, err := device.Numbered(dev); err == nil {
				a = answer{device.Overlaps(r.info, info), true}
			}
			asked[dev] = a
		}
		return a.here, a.known
	}
}

// walked returns the room of a file system that somebody has come through; nil: one that nobody has to wait for. It knows
// the numbers that the kernel has made up too.
func (h *House) walked(dev uint64) (r *room, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, known = h.byDev[dev]
	return r, known
}
