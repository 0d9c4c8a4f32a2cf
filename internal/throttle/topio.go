package throttle

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/internal/throttle/foreign"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

const (
	// attributionInterval is the least time between two scans of all processes, which cost some 10 µs for each process.
	attributionInterval = time.Second
	// maxNamed is how many processes a report names for one device.
	maxNamed = 5
	// numberExpiry is for how long the device behind a device number is cached.
	numberExpiry = time.Minute
)

// topIO sums the bytes of processes that used a device while windows were open.
type topIO struct {
	always bool // scan from the start, not only after foreign I/O was seen

	mu    sync.Mutex
	busy  bool
	next  time.Time
	moved map[report.Process]uint64 // bytes
	last  []report.Process
	at    time.Time                   // of last
	peers map[report.Process]peerSeen // processes that share the state of the device and have precedence
}

// peerSeen is when a process was last seen to share the device, and whether it is a run of tidemark.
type peerSeen struct {
	at       time.Time
	tidemark bool
}

// recently is how long a process counts as using the device after it was seen to: until the next scan, so that a
// finished process is named for less than two seconds.
const recently = attributionInterval * 7 / 4

// attributingWatcher scans for top I/O processes when its Watcher has seen foreign I/O, and makes the process step
// aside.
type attributingWatcher struct {
	*foreign.Watcher
	top   *topIO
	peers func() []shared.Process
	aside func(now time.Time)
}

// Look implements iopolicy.Watcher. The scan runs on a goroutine of its own, since the gate must not wait for it.
func (w attributingWatcher) Look(m iopolicy.Moment) iopolicy.Sighting {
	s := w.Watcher.Look(m)
	w.aside(m.At)
	seen := w.top.always || s.Inflight[0] || !s.Newest[0].IsZero()
	if w.top.due(m.At) {
		go w.top.collect(func() []report.Process {
			if seen || len(w.peers()) > 0 {
				return w.Watcher.TopProcesses()
			}
			return nil
		})
	}
	return s
}

// due reports whether a scan is due; if so, collect must follow.
func (t *topIO) due(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || now.Before(t.next) {
		return false
	}
	t.busy, t.next = true, now.Add(attributionInterval)
	return true
}

func (t *topIO) collect(scan func() []report.Process) {
	found := scan()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	t.last, t.at = found, time.Now()
	if t.moved == nil {
		t.moved = map[report.Process]uint64{}
	}
	for _, p := range found {
		t.moved[report.Process{PID: p.PID, Name: p.Name}] += p.Bytes
	}
}

// meet records peers whose tier has opened windows for this process. name returns the program of a process.
func (t *topIO) meet(peers []shared.Process, windows [iopolicy.Tiers]uint64, name func(pid int) string) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range peers {
		if p.Policy == iopolicy.Passive || int(p.Tier) >= len(windows) || windows[p.Tier] == 0 {
			continue
		}
		if t.peers == nil {
			t.peers = map[report.Process]peerSeen{}
		}
		program := name(p.PID)
		own := program == "" || strings.HasPrefix(program, "tidemark")
		t.peers[report.Process{PID: p.PID, Name: program}] = peerSeen{now, own}
	}
}

// list returns the processes with the most bytes; groups without a process ID come last. now are those seen in the last
// seconds.
func (t *topIO) list() (all, now []report.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	met := maps.Clone(t.peers)
	blame := func(p report.Process, bytes uint64) report.Process {
		peer := t.peers[p].tidemark
		delete(met, p)
		p.Bytes, p.Peer = bytes, peer
		return p
	}
	for p, bytes := range t.moved {
		if bytes > 0 {
			all = append(all, blame(p, bytes))
		}
	}
	for p := range met {
		all = append(all, blame(p, 0))
	}
	if time.Since(t.at) < recently {
		for _, p := range t.last {
			now = append(now, blame(report.Process{PID: p.PID, Name: p.Name}, p.Bytes))
		}
	}
	for p, seen := range t.peers {
		if time.Since(seen.at) < recently &&
			!slices.ContainsFunc(now, func(c report.Process) bool { return c.PID == p.PID }) {
			now = append(now, blame(p, 0))
		}
	}
	return most(all), most(now)
}

// most sorts processes and returns the first.
func most(all []report.Process) []report.Process {
	unnamed := func(c report.Process) int {
		if c.PID == 0 {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b report.Process) int {
		return cmp.Or(cmp.Compare(unnamed(a), unnamed(b)), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID))
	})
	return all[:min(len(all), maxNamed)]
}

// onDevice returns a function that reports whether a device number is that of e. One goroutine at a time may call it.
// It caches answers for a minute, since another device may take the number.
func (m *Manager) onDevice(e *entry) foreign.OnDevice {
	type answer struct{ here, known bool }
	var cache map[uint64]answer
	var since time.Time
	return func(dev uint64) (here, known bool) {
		if found, known := m.byNumber(dev); known {
			return found == e, true
		}
		if len(e.info.Leaves) == 0 && e.info.Server == "" { // nothing to compare with
			return false, false
		}
		if cache == nil || time.Since(since) > numberExpiry {
			cache, since = map[uint64]answer{}, time.Now()
		}
		a, cached := cache[dev]
		if !cached {
			if info, err := device.Numbered(dev); err == nil {
				a = answer{device.Overlaps(e.info, info), true}
			}
			cache[dev] = a
		}
		return a.here, a.known
	}
}

// byNumber returns the entry of a file system that the run has entered; nil: one that needs no gate. It covers
// anonymous device numbers too, which device.Numbered cannot resolve.
func (m *Manager) byNumber(dev uint64) (e *entry, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, known = m.byDev[dev]
	return e, known
}
