package throttle

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/internal/throttle/foreign"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// entry is everything that belongs to one device.
type entry struct {
	info       device.Info
	gate       *iopolicy.Gate
	watch      *foreign.Watcher
	peers      *shared.State // nil: nothing is shared
	settings   iopolicy.Settings
	classifier *device.Classifier
	notes      []string
	topIO      topIO
	published  iopolicy.Bytes // the part of elsewhere that peers know
	exact      bool           // every operation is metered, so its bytes are proven to be for this device
	submitted  iopolicy.Counter
}

// newEntry makes the entry of a device. found is the detected medium, whatever --medium says. m.mu is held.
func (m *Manager) newEntry(info device.Info, found device.Medium, exact bool) *entry {
	e := &entry{info: info, classifier: device.NewClassifier(info), settings: m.cfg.Settings, exact: exact}
	e.topIO.always = m.cfg.Blame
	e.join(m)
	opt := foreign.Options{Proc: m.cfg.Proc, Cooperating: e.cooperating, OnDevice: m.onDevice(e)}
	opt.Served = e.served
	opt.Touches = os.Geteuid() != 0 // O_NOATIME on files of other users needs root
	if e.exact {
		opt.Elsewhere = func() iopolicy.Bytes { return m.elsewhere(e) }
	}
	e.watch = foreign.Watch(watched(info, found), opt)
	if !m.cfg.Settings.Enabled {
		e.notes = append(e.notes, "The gate only counts: the kernel carries the policy out, or policies are switched off.")
	} else if mode, why := e.watch.Mode(); mode == diskwatch.Blind {
		e.notes = append(e.notes, why+" The job yields only to other runs of tidemark.")
	}
	cfg := iopolicy.Config{
		Name: info.Name(), Medium: info.Medium.IOMedium(), Settings: m.cfg.Settings,
		Watcher: attributingWatcher{e.watch, &e.topIO, e.cooperating, m.aside.follow}, Idle: m.cfg.Idle,
		Metering: iopolicy.Metering{Meter: diskwatch.Meter(), Attribute: e.exact, Submitted: &e.submitted},
	}
	if e.peers != nil {
		cfg.Peers = e.peers
	}
	e.gate = iopolicy.New(cfg)
	return e
}

// watched returns the device whose counters are watched. --medium chooses the periods and the poll interval; the
// counters are those of the device that was found. So a disk called remote is watched as a disk, and a server called a
// disk is not.
func watched(info device.Info, found device.Medium) device.Info {
	if (info.Medium == device.Remote) == (found == device.Remote) {
		return info
	}
	info.Medium = found
	if found == device.Memory { // memory has no counters, and --medium asks for a gate
		info.Medium = device.Unknown
	}
	return info
}

// join attaches to the state shared with other processes at the device. Without it the job runs as well, and each
// process takes the other's I/O for tier 0.
func (e *entry) join(m *Manager) {
	if m.cfg.Runtime == "" {
		return
	}
	opt := shared.Options{Policy: m.cfg.Client.Policy(), Spacing: e.spacing(e.info.Medium)}
	s, err := shared.Attach(m.cfg.Runtime, e.info.Key, opt)
	if err != nil {
		e.notes = append(e.notes, fmt.Sprintf("Other runs of tidemark count as strangers here: %v.", err))
		return
	}
	e.peers = s
}

// publishPolicy sends the client's policy to the peers, again if it changed meanwhile.
func (e *entry) publishPolicy(c *iopolicy.Client) {
	if e.peers == nil {
		return
	}
	for p := c.Policy(); ; p = c.Policy() {
		e.peers.SetPolicy(p)
		if p == c.Policy() {
			return
		}
	}
}

// spacing returns the least time between slots of different tiers on a medium.
func (e *entry) spacing(m device.Medium) time.Duration {
	if m.IOMedium() == iopolicy.SSD {
		return e.settings.PeriodSSD[1]
	}
	return e.settings.PeriodHDD[1]
}

// pass returns a client's pass through the gate; nil for a nil entry.
func (e *entry) pass(c *iopolicy.Client) *iopolicy.Pass {
	if e == nil {
		return nil
	}
	return e.gate.Pass(c)
}

// cooperating returns the other processes that share the state of the device.
func (e *entry) cooperating() []shared.Process {
	if e.peers == nil {
		return nil
	}
	return slices.DeleteFunc(e.peers.Processes(), func(p shared.Process) bool { return p.Self || !p.Live })
}

// elsewhere returns how many bytes of this process are proven to have gone to other devices than e's. Only the watcher
// of e calls it, one call at a time.
func (m *Manager) elsewhere(e *entry) (sum iopolicy.Bytes) {
	for _, other := range m.all() {
		if other != e && other.exact {
			own := other.submitted.Bytes()
			sum.Read += own.Read
			sum.Written += own.Written
		}
	}
	if e.peers != nil { // peers subtract it from the kernel's counters of this process
		e.peers.AddElsewhere(iopolicy.Bytes{Read: sum.Read - e.published.Read, Written: sum.Written - e.published.Written})
		e.published = sum
	}
	return sum
}

// served passes service times of reads to the classifier. The gate's lock is held.
func (e *entry) served(each time.Duration, bytes int) {
	before, known, _ := e.classifier.Medium()
	e.classifier.Add(each, bytes)
	if medium, decided, _ := e.classifier.Medium(); decided && (!known || medium != before) {
		go e.applyMedium()
	}
}

// applyMedium changes the periods to those of the classified medium, here and for the peers: processes with different
// spacing would not agree on slots.
func (e *entry) applyMedium() {
	medium, _, _ := e.classifier.Medium()
	e.gate.SetMedium(medium.IOMedium())
	if e.peers != nil {
		e.peers.SetSpacing(e.spacing(medium))
	}
}

// report returns the statistics of the device.
func (e *entry) report(p iopolicy.Policy) report.Gate {
	s := e.gate.Stats()
	medium, _, why := e.classifier.Medium()
	g := report.Gate{
		Device: s.Name, Medium: medium.String(), Why: why, Policy: p.String(), State: s.State,
		Charged: s.Charged,
		Asleep:  s.Asleep, Held: s.Held, Engaged: s.Engaged, Windows: s.Windows, Impact: s.Impact,
		Notes: e.notes,
	}
	if mode, why := e.watch.Mode(); mode != diskwatch.Blind && why != "" {
		g.Notes = append(g.Notes[:len(g.Notes):len(g.Notes)], why)
	}
	if g.Engaged > 0 {
		e.topIO.meet(e.cooperating(), s.Windows, foreign.Program)
	}
	g.Blamed, g.Current = e.topIO.list()
	return g
}
