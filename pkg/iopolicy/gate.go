package iopolicy

import (
	"context"
	"time"
)

// Medium chooses the column of I/O periods. What is unknown counts as HDD, and so does another machine.
type Medium uint8

// The media.
const (
	HDD Medium = iota
	SSD
)

// Kind is what an operation does to the device.
type Kind uint8

// The kinds of operations.
const (
	Read     Kind = iota // data; may be answered by the page cache
	Metadata             // looks something up; may be answered by a cache
	Write                // data on its way to the device
	Sync                 // waits until what was written is on the device: fsync, a commit, a rename that must last
)

// Op is one operation before it begins.
type Op struct {
	Kind  Kind
	Bytes int // how much it would like to move; 0: does not matter
	// Certain: it reaches the device whatever the caches hold (O_DIRECT, a flush, a request to another machine), and so
	// is charged without looking.
	Certain bool
}

// Config is what a gate is made of.
type Config struct {
	Name     string // of the device, for reports: "sda", "//nas/share"
	Medium   Medium
	Settings Settings
	Watcher  Watcher     // sees others' I/O; nil: only what passes this gate or is told by Peers counts
	Meter    Meter       // tells what reached the device; nil: every operation that moved bytes did
	Peers    Peers       // other processes with gates for the same device; nil: none
	Idle     func() bool // nobody is using the machine: tier 3 counts as tier 2; nil: not known, so never
	// Attribute: every operation is metered, not only those inside a window, because the process uses other devices
	// too and a Watcher must know which bytes were for this one.
	Attribute bool
}

// Watcher sees foreign I/O on one device. The gate calls it at the boundaries of its own operations, one call at a time
// and, outside gaps, no more often than Interval.
type Watcher interface {
	Look(m Moment) Sighting
	Interval() time.Duration
}

// Moment is what the gate knows of its own I/O when it asks a Watcher.
type Moment struct {
	At       time.Time
	Inflight int    // own operations on the device now
	Begun    uint64 // own operations begun so far; with Inflight 0 at two moments and Begun equal, the time between is a gap
	Writing  int    // of Inflight: writes and syncs
	Wrote    uint64 // own writes and syncs begun so far
	// Own counts bytes that were proven to be this gate's: those of metered operations that have ended. All bytes of
	// this process that no gate has claimed are told by nobody.
	Own Bytes
}

// Bytes are amounts that reached a device.
type Bytes struct{ Read, Written uint64 }

// Sighting is what a Watcher saw since its last look.
type Sighting struct {
	// Newest is when foreign I/O of each tier was last seen; zero: none seen.
	Newest [Tiers]time.Time
	// Inflight: foreign I/O of that tier is on the device at this moment.
	Inflight [Tiers]bool
}

// Meter tells how many bytes the calling thread has had submitted to devices so far. The gate locks the goroutine to its
// thread around a metered operation.
type Meter interface {
	Submitted() Bytes
}

// Peers is state that processes on one machine share about one device. Implementations are safe against peers that die
// or lie; see package shared.
type Peers interface {
	// Publish tells the peers of own I/O of a tier that began or ended at a moment.
	Publish(t Tier, at time.Time)
	// Enter and Leave tell that own I/O of a tier is on the device.
	Enter(t Tier)
	Leave(t Tier)
	// Seen returns when the peers' I/O of each tier was last at the device, and whether some is there now.
	Seen() Sighting
	// Claim asks for the slot that opens at now for an I/O of tier t, where slots are period apart: at most one process
	// gets it. Otherwise next is when to ask again.
	Claim(t Tier, now time.Time, period time.Duration) (ok bool, next time.Time)
}

// State is what a gate would do with an operation.
type State uint8

// The states, as in XNU.
const (
	Disengaged State = iota // no window is open: full speed
	Engaged                 // in a window: small operations only
	Now                     // in a window, and this period's operation was used up: wait
)

// Gate admits or delays the I/O of one device.
type Gate struct{ cfg Config }

// New makes a gate.
func New(cfg Config) *Gate { return &Gate{cfg: cfg} }

// Name returns the name of the device.
func (g *Gate) Name() string { return g.cfg.Name }

// Pass returns c's way through g. A nil *Gate gives a nil *Pass, which admits everything at once.
func (g *Gate) Pass(c *Client) *Pass {
	if g == nil {
		return nil
	}
	return &Pass{g, c}
}

// Shut lets no operation begin until Open: those that ask wait, whatever their policy.
func (g *Gate) Shut() {}

// Open undoes Shut.
func (g *Gate) Open() {}

// SetMedium changes the column of periods, when the medium has turned out to be another.
func (g *Gate) SetMedium(Medium) {}

// Stats returns what has happened at g so far.
func (g *Gate) Stats() Stats { return Stats{Name: g.cfg.Name, Medium: g.cfg.Medium} }

// Stats tells what has happened at a gate.
type Stats struct {
	Name       string
	Medium     Medium
	State      State                // for the worst tier that has used the gate
	Operations uint64               // begun
	Charged    uint64               // that used up a period's slot
	Moved      Bytes                // by all operations, as their callers told, whether they reached the device or not
	Asleep     [Tiers]time.Duration // by tier of the sleeper, summed over sleepers
	Held       time.Duration        // wall time in which somebody slept and no own operation was on the device
	Engaged    time.Duration        // wall time in which a window was open for somebody who used the gate
	Windows    [Tiers]uint64        // windows that were opened, by the tier of who opened them
}

// Client is a job that does I/O: its policy holds at every gate it passes, and may change at any time.
type Client struct{ policy Policy }

// NewClient makes a client.
func NewClient(p Policy) *Client { return &Client{p} }

// Policy returns the policy that holds now.
func (c *Client) Policy() Policy { return c.policy }

// SetPolicy changes the policy. Who waits at a gate decides anew at once.
func (c *Client) SetPolicy(p Policy) { c.policy = p }

// Pass is a client's way through one gate. A nil *Pass admits everything at once. It is safe for concurrent use.
type Pass struct {
	gate   *Gate
	client *Client
}

// Gate returns the gate; nil for a nil Pass.
func (p *Pass) Gate() *Gate {
	if p == nil {
		return nil
	}
	return p.gate
}

// Bound returns the largest I/O that is allowed now, in bytes; 0: any. It does not wait and costs some nanoseconds.
func (p *Pass) Bound() int { return 0 }

// Begin waits until an operation may begin. If ctx ends first, it returns the cause, and there must be no operation.
// Whoever calls holds nothing that others need meanwhile.
func (p *Pass) Begin(ctx context.Context, op Op) (Grant, error) { return Grant{}, context.Cause(ctx) }

// Do does one operation: f is called once Begin admits it, with the grant's bound, and returns how many bytes it moved.
func (p *Pass) Do(ctx context.Context, op Op, f func(bound int) (int, error)) (int, error) {
	g, err := p.Begin(ctx, op)
	if err != nil {
		return 0, err
	}
	n, err := f(g.Max)
	g.End(n)
	return n, err
}

// Grant is the leave to do one operation. End must be called exactly once.
type Grant struct {
	Max int // the largest I/O allowed, in bytes; 0: any

	pass *Pass
}

// End tells that the operation is over and how many bytes it moved.
func (g Grant) End(n int) {}
