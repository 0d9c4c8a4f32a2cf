// Package gatehouse keeps the gates of one run: one for each device that the run touches, however many paths lie on it.
// Whoever opens a door asks by path, or by an open directory, and gets a pass.
//
// It is the place where the parts of the I/O policy meet: what lies behind a path (device), who else is there
// (pressure), what other processes tell (iopolicy/shared), and the rules (iopolicy). It decides nothing itself, and
// refuses to know what the I/O is for.
package gatehouse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Config says how the gates of a run are made.
type Config struct {
	Client   *iopolicy.Client
	Settings iopolicy.Settings
	Medium   string         // what the user says the devices are: a word of device.ParseMedium; "" or "auto": look
	Runtime  string         // folder of what processes share; "": nothing is shared
	Blame    bool           // name from the start who opens windows, not only once somebody was given way to
	Idle     func() bool    // nobody is at the machine; nil: not known
	Devices  *device.Finder // what the run knows of its devices; nil: nothing yet
}

// House holds the gates. It is safe for concurrent use.
type House struct {
	cfg Config

	roster atomic.Pointer[[]*room] // of rooms, for those who must not wait

	several bool // devices from the beginning

	mu    sync.Mutex
	rooms []*room
	byDev map[uint64]*room // by the number of the file system
	byWay map[string]*room // by path
}

// Open makes a house and, for each of the places, the gate of its device. If that is one device, all bytes of this process
// are taken for its; with several, every operation is metered, which costs some 600 ns. So a run names all places that it
// knows of. Those that do not exist yet count as the folder they will lie in.
func Open(cfg Config, places ...string) (*House, error) {
	if cfg.Client == nil {
		cfg.Client = iopolicy.NewClient(iopolicy.Important)
	}
	if byKernel {
		cfg.Settings.Enabled = false
	}
	if _, err := device.ParseMedium(cfg.Medium); err != nil {
		return nil, fmt.Errorf("choose medium: %w", err)
	}
	if cfg.Devices == nil {
		cfg.Devices = device.NewFinder()
	}
	h := &House{cfg: cfg, byDev: map[uint64]*room{}, byWay: map[string]*room{}}
	h.roster.Store(new([]*room))
	h.several = h.distinct(places) > 1
	for _, place := range places {
		h.Path(place)
	}
	return h, nil
}

// distinct counts the devices of some places.
func (h *House) distinct(places []string) int {
	var found []device.Info
	for _, place := range places {
		info, err := h.cfg.Devices.Of(place)
		if err == nil {
			info, err = device.Override(info, h.cfg.Medium)
		}
		if err == nil && info.Key != "" && !slices.ContainsFunc(found, func(i device.Info) bool { return device.Overlaps(i, info) }) {
			found = append(found, info)
		}
	}
	return len(found)
}

// Client returns the client whose policy holds at all gates.
func (h *House) Client() *iopolicy.Client { return h.cfg.Client }

// Path returns the pass for what lies behind path; nil, which admits everything, for what is kept in memory. A path that
// cannot be looked at gets the pass of an unknown device: whoever opens it will say what is wrong.
func (h *House) Path(path string) *iopolicy.Pass {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, known := h.byWay[path]
	if !known {
		info, err := h.cfg.Devices.Of(path)
		if err != nil {
			info = device.Info{Key: "unknown", Why: "What it lies on cannot be found out."}
		}
		r = h.room(info)
		h.byWay[path] = r
	}
	return r.pass(h.cfg.Client)
}

// Gate is Dir, or Path where there is no open directory yet: what localfs.Gates asks for.
func (h *House) Gate(dir *localfs.Dir, path string) *iopolicy.Pass {
	if dir == nil {
		return h.Path(path)
	}
	return h.Dir(dir, path)
}

// Dir returns the pass for an open directory, which lies at path: for a walk that comes to another file system.
func (h *House) Dir(dir *localfs.Dir, path string) *iopolicy.Pass {
	st, err := dir.Fstat()
	if err != nil {
		return h.Path(path)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r, known := h.byDev[st.Dev]
	if !known {
		info, err := h.cfg.Devices.At(dir)
		if err != nil {
			info = device.Info{Key: "unknown", Why: "What it lies on cannot be found out."}
		}
		r = h.room(info)
		h.byDev[st.Dev] = r
	}
	return r.pass(h.cfg.Client)
}

// room finds or makes the room for a device; nil for what nobody has to wait for. h.mu is held.
func (h *House) room(info device.Info) *room {
	found := info
	info, err := device.Override(found, h.cfg.Medium)
	if err != nil || info.Key == "" {
		return nil
	}
	for _, r := range h.rooms {
		if r.info.Key == info.Key || device.Overlaps(r.info, info) {
			return r
		}
	}
	return h.furnish(info, found.Medium, h.several || len(h.rooms) > 0)
}

// furnish makes a room and enters it in the roster. h.mu is held.
func (h *House) furnish(info device.Info, found device.Medium, exact bool) *room {
	r := h.build(info, found, exact)
	h.rooms = append(h.rooms, r)
	roster := slices.Clone(h.rooms)
	h.roster.Store(&roster)
	r.tell(h.cfg.Client) // whoever has changed the policy meanwhile did not know of this room
	return r
}

// Remote returns the pass for what this process itself exchanges with a server over SMB, without a mount. The kernel
// counts none of it as I/O, neither as ours nor as that of others: only other runs that use the same server are given way
// to, and no byte that goes there is taken off what the kernel tells of this process at other devices. --medium says
// nothing about it.
func (h *House) Remote(host string) *iopolicy.Pass {
	host = strings.ToLower(host)
	key := "remote:smb:" + host
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.rooms, func(r *room) bool { return r.info.Key == key })
	if at >= 0 {
		return h.rooms[at].pass(h.cfg.Client)
	}
	info := device.Info{Medium: device.Remote, Key: key, Server: host, Why: "It is a share of another machine."}
	return h.furnish(info, device.Remote, false).pass(h.cfg.Client)
}

// Gates returns the gates made so far, in that order.
func (h *House) Gates() []*iopolicy.Gate {
	var gates []*iopolicy.Gate
	for _, r := range h.all() {
		gates = append(gates, r.gate)
	}
	return gates
}

// all returns the rooms made so far. It takes no lock.
func (h *House) all() []*room { return *h.roster.Load() }

// Turns tells whether what lies behind a pass of h is a disk that turns, as far as is known by now. It takes no lock.
func (h *House) Turns(pass *iopolicy.Pass) bool {
	gate := pass.Gate()
	for _, r := range h.all() {
		if gate != nil && r.gate == gate {
			medium, _, _ := r.judge.Medium()
			return medium == device.HDD
		}
	}
	return false
}

// SetPolicy changes the policy of the run, at every gate and for the other processes. Who waits decides anew at once.
func (h *House) SetPolicy(p iopolicy.Policy) {
	h.cfg.Client.SetPolicy(p)
	for _, r := range h.all() {
		r.tell(h.cfg.Client)
	}
}

// Report tells what has happened at each gate.
func (h *House) Report() []report.Gate {
	var out []report.Gate
	for _, r := range h.all() {
		out = append(out, r.report(h.cfg.Client.Policy()))
	}
	return out
}

// Close ends watching and sharing. No operation may be under way.
func (h *House) Close() error {
	var errs []error
	for _, r := range h.all() {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
