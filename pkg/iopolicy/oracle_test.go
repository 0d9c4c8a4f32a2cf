package iopolicy_test

import (
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// The rules of the policy as a calculation on paper, one millisecond after the other. It is independent of the gate:
// what the gate does is compared with it, I/O by I/O.

// act is one operation of a worker.
type act struct {
	think   int // ms from the end of the one before (or from 0) until it asks
	takes   int // ms on the device, or in a cache
	kind    iopolicy.Kind
	certain bool
	touches bool // the meter says that it was on the device
}

// worker does one operation after the other for a client.
type worker struct {
	client int
	acts   []act
	cancel int // ms at which it gives up waiting for good; 0: never
}

// change is something that happens from outside.
type change struct {
	at     int
	client int             // its policy changes
	policy iopolicy.Policy // to this
	what   string          // "policy", "idle", "busy", "hdd", "ssd", "shut", "open"
}

// scene is what goes on at one device.
type scene struct {
	settings iopolicy.Settings
	medium   iopolicy.Medium
	metered  bool
	clients  []iopolicy.Policy
	workers  []worker
	changes  []change // in order of time
	until    int      // ms
}

// admission is one I/O that may go.
type admission struct {
	At, Worker, Act, Max int
}

// paper is the state of one device.
type paper struct {
	scene
	now    int
	ssd    bool
	idle   bool
	shut   bool
	policy []iopolicy.Policy
	anyone bool // an operation that may have to wait has been here

	flying [4]int // on the device, by tier
	edge   [4]int // when I/O of a tier last began or ended there
	lastIO [4]int // when a charged I/O of a tier was issued
	start  [4]int // of the period of a tier
	floor  int    // no turn before
	turn   int    // the tier that is next
	used   bool   // an I/O was charged in this period
	given  int    // when the present turn was given or passed on
	whose  int    // tier it is for; 0: it is used, or was never given
	small  int    // I/Os inside windows that are under way
	number int    // of this period

	asleep  [4][]*doing
	outside []*doing // arrived while it was shut

	out    []admission
	waited int // I/Os that had to sleep
}

// doing is where a worker is.
type doing struct {
	id, next int
	tier     int // 4: passive
	state    string
	due      int // thinking: asks; going: ends
	issued   int
	period   int
	small    bool
	timed    bool
}

const longAgo = -1 << 40

func (s scene) onPaper() *paper {
	p := &paper{scene: s, ssd: s.medium == iopolicy.SSD, policy: slices.Clone(s.clients), turn: 3, floor: longAgo}
	for t := range 4 {
		p.edge[t], p.lastIO[t], p.start[t] = longAgo, longAgo, longAgo
	}
	var all []*doing
	for id, w := range s.workers {
		d := &doing{id: id, state: "thinking"}
		if len(w.acts) == 0 {
			d.state = "done"
		} else {
			d.due = w.acts[0].think
		}
		all = append(all, d)
	}
	for client := range p.policy {
		p.anyone = p.anyone || p.policy[client].Tier() > 0
	}
	changes := s.changes
	for p.now = 0; p.now < s.until; p.now++ {
		p.turns() // a timer that is due comes first
		for len(changes) > 0 && changes[0].at == p.now {
			p.apply(changes[0])
			changes = changes[1:]
			p.turns()
		}
		for _, d := range all {
			if s.workers[d.id].cancel == p.now && p.now > 0 {
				p.giveUp(d)
			}
		}
		for i := 0; i < len(all); i++ { // the first in the list acts first, and as long as it can
			d := all[i]
			if d.due > p.now || d.state != "thinking" && d.state != "going" {
				continue
			}
			if d.state == "thinking" {
				p.ask(d)
			} else {
				p.end(d)
			}
			p.turns()
			i = -1
		}
	}
	return p
}

func (p *paper) window(t int) int { return int(p.settings.Window[t].Milliseconds()) }

func (p *paper) period(t int) int {
	if p.ssd {
		return int(p.settings.PeriodSSD[t].Milliseconds())
	}
	return int(p.settings.PeriodHDD[t].Milliseconds())
}

// tier: a passive client is tier 0 and leaves no trace (4). While the user is away, tier 3 is tier 2.
func (p *paper) tier(client int) int {
	switch policy := p.policy[client]; {
	case policy == iopolicy.Passive:
		return 4
	case policy == iopolicy.Throttle && p.idle:
		return 2
	default:
		return int(policy.Tier())
	}
}

// A window is open for a tier while I/O of a better tier is on the device, and for the tier's window after it was.
func (p *paper) open(t int) bool {
	for better := 0; better < t; better++ {
		if p.flying[better] > 0 || p.now-p.edge[better] < p.window(t) {
			return p.settings.Enabled
		}
	}
	return false
}

// ask: outside a window at full speed; inside a small one, if no I/O was charged in this period; else sleep.
func (p *paper) ask(d *doing) {
	d.tier = p.tier(p.workers[d.id].client)
	p.place(d, len(p.asleep[d.tier&3]))
}

func (p *paper) place(d *doing, at int) (queued bool) {
	inWindow := d.tier != 4 && p.open(d.tier)
	switch {
	case p.shut:
		d.state = "outside"
		p.outside = append(p.outside, d)
	case !inWindow:
		p.launch(d, false)
	case !p.used:
		p.launch(d, true)
	default:
		if len(p.asleep[d.tier]) == 0 {
			p.start[d.tier] = p.lastIO[d.tier]
		}
		d.state = "asleep"
		p.waited++
		p.asleep[d.tier] = slices.Insert(p.asleep[d.tier], at, d)
		return true
	}
	return false
}

func (p *paper) launch(d *doing, small bool) {
	a := p.workers[d.id].acts[d.next]
	d.state, d.issued, d.period, d.small, d.due = "going", p.now, p.number, small, p.now+a.takes
	limit := 0
	if small {
		limit = p.settings.MaxIOSize
	}
	if small {
		p.small++
	}
	p.out = append(p.out, admission{p.now, d.id, d.next, limit})
	if d.tier == 4 {
		return
	}
	p.flying[d.tier]++
	d.timed = p.anyone // without clients that may wait, the times of tier 0 are not recorded
	if a.certain && d.timed {
		p.edge[d.tier] = p.now
		p.charge(d)
	}
}

// charge: what reached the device counts for the period in which it was issued.
func (p *paper) charge(d *doing) {
	if d.tier == 0 {
		return
	}
	p.lastIO[d.tier] = max(p.lastIO[d.tier], d.issued)
	if d.period == p.number {
		p.used, p.whose = true, 0
	}
}

// end: a window opens again at the end of what reached the device. In a window the meter knows whether it did; a flush
// that took time did in any case. Else what took time did, and what was written.
func (p *paper) end(d *doing) {
	a := p.workers[d.id].acts[d.next]
	if d.small {
		p.small--
	}
	var reached bool
	switch {
	case a.certain:
		reached = true
	case d.small && p.metered && a.kind != iopolicy.Write && a.takes == 0:
		reached = a.touches && a.kind == iopolicy.Sync // what took no time is not asked about, but for writes
	case d.small && p.metered:
		reached = a.touches || a.kind == iopolicy.Sync
	default:
		reached = a.takes > 0 || a.kind == iopolicy.Write
	}
	if d.tier != 4 {
		p.flying[d.tier]--
		if reached && d.timed {
			p.edge[d.tier] = p.now
			if !a.certain {
				p.charge(d)
			}
		}
	}
	d.next++
	if d.next == len(p.workers[d.id].acts) {
		d.state = "done"
		return
	}
	d.state, d.due = "thinking", p.now+p.workers[d.id].acts[d.next].think
}

// due: a turn comes when a sleeping tier's period is over, but no sooner than tier 1's period after the last turn, or
// after tier 1's period began.
func (p *paper) due() (at int, anybody bool) {
	at = 1 << 40
	for t := 1; t <= 3; t++ {
		if len(p.asleep[t]) > 0 {
			at, anybody = min(at, p.start[t]+p.period(t)), true
		}
	}
	return max(at, p.floor, p.start[1]+p.period(1)), anybody
}

// turns: each tier with an ended period is a candidate, and the next in the order 3, 2, 1, 3 wakes its first sleeper.
// That opens a new period, for it and all better tiers. Then all operations with a closed window wake.
func (p *paper) turns() {
	if at, anybody := p.due(); p.shut || !anybody || p.now < at {
		p.passOn()
		return
	}
	var closed [4]bool
	for t := 1; t <= 3; t++ {
		closed[t] = !p.open(t)
	}
	for {
		if at, anybody := p.due(); !anybody || p.now < at {
			break
		}
		t := p.turn
		for len(p.asleep[t]) == 0 || p.now < p.start[t]+p.period(t) {
			t = []int{0, 3, 1, 2}[t]
		}
		p.turn = []int{0, 3, 1, 2}[t]
		p.number++
		p.used = false
		p.floor = p.now + p.period(1)
		for better := 1; better <= t; better++ {
			p.start[better] = p.now
		}
		first := p.asleep[t][0]
		p.asleep[t] = p.asleep[t][1:]
		p.whose = 0
		if !closed[t] {
			p.given, p.whose = p.now, t
		}
		p.launch(first, !closed[t])
	}
	for t := 1; t <= 3; t++ {
		if closed[t] {
			all := p.asleep[t]
			p.asleep[t] = nil
			for _, d := range all {
				p.launch(d, false)
			}
		}
	}
}

// passOn: a slot that was unused for a millisecond, with no holder at the device, goes to the next of the same tier.
func (p *paper) passOn() {
	t := p.whose
	if p.shut || t == 0 || p.used || p.small > 0 || len(p.asleep[t]) == 0 || p.now-p.given < 1 || !p.open(t) {
		return
	}
	first := p.asleep[t][0]
	p.asleep[t] = p.asleep[t][1:]
	p.given = p.now
	p.launch(first, true)
	p.passOn()
}

func (p *paper) giveUp(d *doing) {
	for t := range p.asleep {
		p.asleep[t] = slices.DeleteFunc(p.asleep[t], func(o *doing) bool { return o == d })
	}
	p.outside = slices.DeleteFunc(p.outside, func(o *doing) bool { return o == d })
	if d.state != "going" {
		d.state = "done"
		return
	}
	p.workers[d.id].acts = p.workers[d.id].acts[:d.next+1] // ends what it is at
}

func (p *paper) apply(c change) {
	switch c.what {
	case "idle", "busy":
		p.idle = c.what == "idle"
	case "hdd", "ssd":
		p.ssd = c.what == "ssd"
	case "shut":
		p.shut = true
	case "open":
		p.shut = false
		came := p.outside
		p.outside = nil
		for _, d := range came {
			p.ask(d)
		}
	case "policy":
		if p.policy[c.client] == c.policy {
			return
		}
		p.policy[c.client] = c.policy
		p.anyone = p.anyone || c.policy.Tier() > 0
		p.rethink(c.client)
	}
}

// rethink: sleepers of a client with a changed tier are re-evaluated, in the order of their tiers and queues. Those
// that must sleep on do so before the others of the new tier.
func (p *paper) rethink(client int) {
	tier := p.tier(client)
	var moved []*doing
	for t := 1; t <= 3; t++ {
		if t == tier {
			continue
		}
		var rest []*doing
		for _, d := range p.asleep[t] {
			if p.workers[d.id].client == client {
				moved = append(moved, d)
			} else {
				rest = append(rest, d)
			}
		}
		p.asleep[t] = rest
	}
	behind := 0
	for _, d := range moved {
		d.tier = tier
		if p.place(d, behind) {
			behind++
		}
	}
}
