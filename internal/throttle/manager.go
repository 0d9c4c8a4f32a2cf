// Package throttle manages the gates of one run: one for each device that the run touches, however many paths lie on
// it. Callers ask for a pass by path or by open directory.
//
// It connects the parts of the I/O policy: the device behind a path (device), I/O of other processes (foreign), state
// shared with other runs (iopolicy/shared), and the scheduler (iopolicy).
package throttle

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Config says how the gates of a run are made.
type Config struct {
	Client   *iopolicy.Client
	Settings iopolicy.Settings
	Medium   device.Medium // --medium; Unknown: detect
	Folders
	Blame   bool           // attribute I/O to processes from the start, not only after foreign I/O was seen
	Idle    func() bool    // the user is away; nil: not known
	Devices *device.Finder // cache of devices; nil: a new one
}

// Folders are where a run finds and keeps what concerns several.
type Folders struct {
	Runtime string // of state shared between processes; "": nothing is shared
	State   string // of mediaFile; "": classifications are not saved
	Proc    string // the proc file system; "": /proc
}

// Manager holds the gates. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	several bool // Open was given paths on more than one device
	aside   aside

	entries atomic.Pointer[[]*entry] // replaced under mu, read without it

	mu     sync.Mutex
	byDev  map[uint64]*entry // by number of the file system; nil entries need no gate
	byPath map[string]*entry
}

// Open makes a manager and the gates of some paths. Paths that do not exist yet count as their nearest existing parent.
// If all are on one device, all I/O of this process is attributed to it; otherwise every operation is metered, which
// costs some 600 ns. So a run passes all paths that it knows.
func Open(cfg Config, paths ...string) *Manager {
	if cfg.Client == nil {
		cfg.Client = iopolicy.NewClient(iopolicy.Important)
	}
	if cfg.Devices == nil {
		cfg.Devices = device.NewFinder()
	}
	m := &Manager{cfg: cfg, byDev: map[uint64]*entry{}, byPath: map[string]*entry{}}
	m.entries.Store(new([]*entry))
	m.aside.share = m.share
	m.several = m.distinct(paths) > 1
	for _, path := range paths {
		m.Path(path)
	}
	return m
}

// distinct counts the devices of some paths.
func (m *Manager) distinct(paths []string) int {
	var found []device.Info
	for _, path := range paths {
		info, err := m.cfg.Devices.Of(path)
		info = device.Override(info, m.cfg.Medium)
		if err == nil && info.Key != "" &&
			!slices.ContainsFunc(found, func(i device.Info) bool { return device.Overlaps(i, info) }) {
			found = append(found, info)
		}
	}
	return len(found)
}

// Path returns the pass for the device behind a path; nil, which admits everything, for memory. A path that cannot be
// examined gets the pass of an unknown device; opening it reports the error.
func (m *Manager) Path(path string) *iopolicy.Pass {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, known := m.byPath[path]
	if !known {
		e = m.entryOf(m.cfg.Devices.Of(path))
		m.byPath[path] = e
	}
	return e.pass(m.cfg.Client)
}

// Gate implements localfs.Gates: the pass for an open directory at path, such as the first one beyond a mount point;
// that of Path without one.
func (m *Manager) Gate(dir *localfs.Dir, path string) *iopolicy.Pass {
	if dir == nil {
		return m.Path(path)
	}
	st, err := dir.Fstat()
	if err != nil {
		return m.Path(path)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, known := m.byDev[st.Dev]
	if !known {
		e = m.entryOf(m.cfg.Devices.At(dir))
		m.byDev[st.Dev] = e
	}
	return e.pass(m.cfg.Client)
}

// entryOf finds or makes the entry of a device; nil for one that needs no gate. m.mu is held.
func (m *Manager) entryOf(found device.Info, err error) *entry {
	if err != nil {
		found = device.Info{Key: "unknown", Why: "What it lies on cannot be found out."}
	}
	info := device.Override(found, m.cfg.Medium)
	if info.Key == "" {
		return nil
	}
	for _, e := range m.all() {
		if e.info.Key == info.Key || device.Overlaps(e.info, info) {
			return e
		}
	}
	return m.add(Known(m.cfg.State, info), found.Medium, m.several || len(m.all()) > 0)
}

// add makes an entry. m.mu is held.
func (m *Manager) add(info device.Info, found device.Medium, exact bool) *entry {
	e := m.newEntry(info, found, exact)
	all := append(slices.Clone(m.all()), e)
	m.entries.Store(&all)
	e.publishPolicy(m.cfg.Client) // SetPolicy may have run since newEntry read the policy
	return e
}

// Remote returns the pass for I/O of this process with a server, without a mount. The kernel does not count that
// as I/O, so the gate yields to other runs of tidemark only. --medium has no effect on it.
func (m *Manager) Remote(host string) *iopolicy.Pass {
	host = strings.ToLower(host)
	key := "remote:" + host
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.all() {
		if e.info.Key == key {
			return e.pass(m.cfg.Client)
		}
	}
	info := device.Info{Medium: device.Remote, Key: key, Server: host, Why: "It is another machine."}
	return m.add(info, device.Remote, false).pass(m.cfg.Client)
}

// share returns the smallest part of the time that one of the gates grants.
func (m *Manager) share() float64 {
	least := 1.0
	for _, e := range m.all() {
		least = min(least, e.gate.Share())
	}
	return least
}

// Follow has f called with the smallest part of the time that one of the gates grants, from 0 to 1, twice a second
// while the job does I/O.
func (m *Manager) Follow(f func(part float64)) {
	m.aside.mu.Lock()
	defer m.aside.mu.Unlock()
	m.aside.other = f
}

// Start calls start so that a child process has all processors of this process.
func (m *Manager) Start(start func() error) error { return m.aside.processors.Start(start) }

// all returns the entries made so far. It takes no lock.
func (m *Manager) all() []*entry { return *m.entries.Load() }

// Rotational reports whether the device behind a pass of m is a rotational disk, as far as is known now. It takes no
// lock.
func (m *Manager) Rotational(pass *iopolicy.Pass) bool {
	_, medium := m.Device(pass)
	return medium == device.HDD.String()
}

// Device returns the name and the medium of the device behind a pass of m, as far as is known now; both are empty for
// no gate. It takes no lock.
func (m *Manager) Device(pass *iopolicy.Pass) (name, medium string) {
	gate := pass.Gate()
	for _, e := range m.all() {
		if gate != nil && e.gate == gate {
			found, _, _ := e.classifier.Medium()
			return e.info.Name(), found.String()
		}
	}
	return "", ""
}

// SetPolicy changes the policy of the run at every gate and publishes it to other processes.
func (m *Manager) SetPolicy(p iopolicy.Policy) {
	m.cfg.Client.SetPolicy(p)
	for _, e := range m.all() {
		e.publishPolicy(m.cfg.Client)
	}
}

// SetMaxImpact changes Settings.MaxImpact at every present and future gate.
func (m *Manager) SetMaxImpact(part float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg.Settings.MaxImpact = part
	for _, e := range m.all() {
		e.gate.SetMaxImpact(part)
	}
}

// Report returns the statistics of each gate, for a job with a policy.
func (m *Manager) Report(p iopolicy.Policy) []report.Gate {
	var out []report.Gate
	for _, e := range m.all() {
		out = append(out, e.report(p))
	}
	return out
}

// Close ends watching and sharing, and saves classifications. No operation may be in flight.
func (m *Manager) Close() error {
	for _, e := range m.all() {
		e.watch.Close()
		if e.peers != nil {
			e.peers.Close()
		}
	}
	m.aside.end()
	return m.remember()
}
