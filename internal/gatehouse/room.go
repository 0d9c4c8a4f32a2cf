package gatehouse

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/pressure"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// sampled is how many operations there are to one of which is measured how long the device takes, while it is not certain
// what the device is. Measuring costs some 600 ns.
const sampled = 16

// room is what belongs to one device.
type room struct {
	info  device.Info
	gate  *iopolicy.Gate
	watch *pressure.Watcher
	peers *shared.State // nil: nothing is shared
	rules iopolicy.Settings
	judge *device.Judge
	notes []string
	suspects
	told  iopolicy.Bytes // how much of elsewhere the peers know
	exact bool           // every operation is metered: its bytes are proven to be for this device
}

// build makes the room of a device, which was found to be of some medium before the user said what it is. h.mu is held.
func (h *House) build(info device.Info, found device.Medium, exact bool) *room {
	r := &room{info: info, judge: device.NewJudge(info), rules: h.cfg.Settings, exact: exact}
	r.suspects.always = h.cfg.Blame
	r.join(h)
	// Who is not root may be refused O_NOATIME, for the files of others.
	opt := pressure.Options{
		Stats: stats(info), Touches: os.Geteuid() != 0, Mount: info.Source, Peers: r.cooperating,
		Syncs: r.syncs, Ledger: r.moved, Here: h.numbers(r),
	}
	if r.exact {
		opt.Elsewhere = func() iopolicy.Bytes { return h.elsewhere(r) }
	}
	r.watch = pressure.Watch(watched(info, found), opt)
	if mode, why := r.watch.Mode(); mode == pressure.Blind {
		r.notes = append(r.notes, why+" Only other runs of tidemark are given way to.")
	}
	cfg := iopolicy.Config{
		Name: info.Name(), Medium: info.Medium.Policy(), Settings: h.cfg.Settings, Watcher: witness{r.watch, &r.suspects},
		Idle:     h.cfg.Idle,
		Metering: iopolicy.Metering{Meter: pressure.Meter(), Attribute: r.exact, Observe: r.observe},
	}
	if r.peers != nil {
		cfg.Peers = r.peers
	}
	r.gate = iopolicy.New(cfg)
	if info.Weak {
		r.gate.Sample(sampled)
	}
	return r
}

// watched returns what is to be watched: the user's word chooses the periods, and with them how often to look, but the
// counters are where the data is. Disks that are said to be remote are watched all the same, and a server that is said to
// be a disk is no disk.
func watched(info device.Info, found device.Medium) device.Info {
	if (info.Medium == device.Remote) == (found == device.Remote) {
		return info
	}
	info.Medium = found
	if found == device.Memory { // nobody waits for memory, and the user says that somebody does
		info.Medium = device.Unknown
	}
	return info
}

// stats are the files in which the kernel counts what the disks of a device do.
func stats(info device.Info) []string {
	var files []string
	for _, leaf := range info.Leaves {
		if leaf.Sysfs != "" {
			files = append(files, filepath.Join(leaf.Sysfs, "stat"))
		}
	}
	return files
}

// join shares state with the other processes at the device. Without it the job runs as well; then each takes the other
// for a stranger.
func (r *room) join(h *House) {
	if h.cfg.Runtime == "" {
		return
	}
	p := h.cfg.Client.Policy()
	s, err := shared.Attach(h.cfg.Runtime, r.info.Key, shared.Options{Policy: p, Spacing: r.spacing(r.info.Medium)})
	if err != nil {
		r.notes = append(r.notes, fmt.Sprintf("Other runs of tidemark count as strangers here: %v.", err))
		return
	}
	r.peers = s
}

// tell lets the peers know which policy a client has, and again if that has changed meanwhile: the last word must be true.
func (r *room) tell(c *iopolicy.Client) {
	if r.peers == nil {
		return
	}
	for p := c.Policy(); ; p = c.Policy() {
		r.peers.SetPolicy(p)
		if p == c.Policy() {
			return
		}
	}
}

// spacing returns how far apart slots of different tiers are on a medium.
func (r *room) spacing(m device.Medium) time.Duration {
	if m.Policy() == iopolicy.SSD {
		return r.rules.PeriodSSD[1]
	}
	return r.rules.PeriodHDD[1]
}

// pass returns a client's way through the room's gate; nil for no room.
func (r *room) pass(c *iopolicy.Client) *iopolicy.Pass {
	if r == nil {
		return nil
	}
	return r.gate.Pass(c)
}

// cooperating returns the processes that share the device and say what they do there.
func (r *room) cooperating() []pressure.Peer {
	if r.peers == nil {
		return nil
	}
	var out []pressure.Peer
	for _, p := range r.peers.Processes() {
		if p.Self || !p.Live {
			continue
		}
		out = append(out, pressure.Peer{
			PID: p.PID, Start: uint64(p.Started), Tier: p.Tier, Passive: p.Policy == iopolicy.Passive,
			Elsewhere: p.Elsewhere.Read,
		})
	}
	return out
}

// elsewhere returns how many bytes of this process are proven to have gone to other devices than r's. The watcher of r asks,
// one look at a time.
func (h *House) elsewhere(r *room) (sum iopolicy.Bytes) {
	for _, other := range h.all() {
		if other != r && other.exact {
			own := other.gate.Own()
			sum.Read += own.Read
			sum.Written += own.Written
		}
	}
	if r.peers != nil { // they subtract it from what the kernel tells them of this process
		r.peers.AddElsewhere(iopolicy.Bytes{Read: sum.Read - r.told.Read, Written: sum.Written - r.told.Written})
		r.told = sum
	}
	return sum
}

// syncs and moved are asked by the watcher, first while the gate is being made.
func (r *room) syncs() (inflight int, begun uint64) {
	if r.gate == nil {
		return 0, 0
	}
	return r.gate.Syncs()
}

func (r *room) moved() iopolicy.Bytes {
	if r.gate == nil {
		return iopolicy.Bytes{}
	}
	return r.gate.Stats().Moved
}

// observe learns about the medium from how long operations took that reached the device.
func (r *room) observe(op iopolicy.Kind, took time.Duration, reached iopolicy.Bytes) {
	if reached.Read == 0 || op != iopolicy.Metadata && op != iopolicy.Read {
		return
	}
	r.judge.Note(took, int(reached.Read), false)
	medium, decided, _ := r.judge.Medium()
	if !decided {
		return
	}
	r.gate.SetMedium(medium.Policy())
	if r.peers != nil { // or a worse tier would wait for a moment that never comes, while a better one keeps to short periods
		r.peers.SetSpacing(r.spacing(medium))
	}
}

// report tells what has happened here.
func (r *room) report(p iopolicy.Policy) report.Gate {
	s := r.gate.Stats()
	medium, _, why := r.judge.Medium()
	g := report.Gate{
		Device: s.Name, Medium: medium.String(), Why: why, Policy: p.String(), State: report.GateState(s.State), Charged: s.Charged,
		Asleep: s.Asleep, Held: s.Held, Engaged: s.Engaged, Windows: s.Windows, Notes: r.notes,
	}
	if mode, why := r.watch.Mode(); mode != pressure.Blind && why != "" {
		g.Notes = append(g.Notes[:len(g.Notes):len(g.Notes)], why)
	}
	g.Blamed = r.suspects.list()
	return g
}

func (r *room) close() error {
	r.watch.Close()
	if r.peers == nil {
		return nil
	}
	if err := r.peers.Close(); err != nil {
		return fmt.Errorf("leave the gate of %s: %w", r.info.Name(), err)
	}
	return nil
}
