// Package model checks the protocol of docs/adr/0012-prune.md by visiting every state of a small world: two writers,
// two prunes, and a person who forgets snapshots, interleaved in every way, with crashes, clock steps, listings that
// lag and snapshots that arrive late. One blob stands for all data: each snapshot needs it, and several packs can hold
// it.
//
// The model has no code in common with the product. It is a second, short description of the same protocol. When the
// protocol changes, change the model first.
package model

// mends are the parts of the protocol that a test takes out to see that the checker finds what they prevent.
type mends struct {
	fence    bool // a prune fences off dead writers before it lists the snapshots
	claim    bool // a renewal takes its next name only if nothing has it
	yield    bool // a fence takes the name only if no renewal has it
	confirm  bool // a writer renews its lease after it has published
	lasting  bool // a fence stays longer than clocks step
	expire   bool // a writer finds that its lease has expired
	gap      bool // a snapshot published long after the last renewal is no parent
	settle   bool // where listings lag, a prune waits before it believes in them
	gone     bool // a lease that was listed and cannot be found does not count as ended
	localDie bool // a prune takes a writer of this host for dead as soon as its file lock is free
	idle     bool // a writer goes on beside a mark that it cannot read only if no prune is running
	unlisted bool // a writer does not acknowledge a mark that it cannot read
	fresh    bool // the second look of a prune finds what was reached in the index and the packs as they are then
	follow   bool // the second look follows the snapshots that the first one has not followed
	reread   bool // a prune reads the leases once more before it removes a mark
}

var allMends = mends{fence: true, claim: true, yield: true, confirm: true, lasting: true, expire: true, gap: true,
	settle: true, gone: true, idle: true, unlisted: true, fresh: true, follow: true, reread: true}

// bounds limit the size of the world.
type bounds struct {
	mends
	writers, prunes             int
	ticks, steps, crashes, late uint8 // how often time passes, the target's clock steps, a process dies, a put is late
	forgets                     uint8
	torn                        uint8 // how often a mark is found unreadable, by one reader or, when it is lost, by all
	tickLength                  int8  // how much the clock of the target goes on in a tick; 0: 1
	lag                         bool  // listings may be as old as the last tick
	parents                     bool  // writers take data over from a parent without looking for it
	repack                      bool  // prunes may repack what is needed
	tight                       bool  // prunes may remove packs before they are out of the index
	inTurn                      bool  // the second prune begins when the first has ended
	quick                       bool  // writers may leave out renewals, and look for a fence instead
	early                       bool  // writers may read index and snapshots before the marks
	hold                        bool  // a prune renews its lease before it removes anything, and ends if it was lost
}

// Time is counted in ticks. A writer takes its own lease for lost after expiry ticks without renewal; others take it
// for dead after longer than dead ticks. A clock step is longer than both. A fence stays longer than two steps.
const (
	expiry   = 2
	dead     = 3
	stepTick = 4
	kept     = 9
)

// The packs that can hold the blob: the old one, one of each writer, one of each prune.
const (
	packOld    = 1 << 0
	packWriter = 1 << 1 // and 1 << 2
	packPrune  = 1 << 3 // and 1 << 4
)

// names is how many names the leases of a writer have: one for each renewal and for each fence.
const names = 6

type lease struct {
	there        uint8        // a bit for each name
	fences       uint8        // likewise: no lease, and no other can get the name
	at           [names]int8  // when it was put, by the clock of the target
	acknowledged [names]uint8 // of a lease
}

type snap struct {
	there        bool
	acknowledged uint8
	late         bool // more than half of the expiry lies between the last renewal and its publication
	unsure       bool // its writer has not confirmed it
}

type mark struct {
	there  bool
	packs  uint8
	looked uint8
	tick   uint8
}

type writer struct {
	pc    uint8
	name  uint8 // number of the last renewal, or of a fence that it has met
	last  int8  // target's time of its last renewal
	marks uint8 // that it acknowledges
	packs uint8 // doomed by these
	sees  uint8 // packs in its index
	snaps uint8 // that it listed before it read the marks
	early uint8 // what it read before the marks: earlyIndex, earlySnaps
	gaps  bool  // it knows that it was taken for dead
}

const (
	earlyIndex = 1 << iota
	earlySnaps
)

type pruner struct {
	pc     uint8
	second bool
	again  bool  // it has removed packs, and reads the leases once more
	marks  uint8 // it has read
	unread uint8 // marks that it could not read
	ripe   uint8
	dead   [2]uint8 // names of leases of dead writers, a bit for each
	seen   uint8    // snapshots
	live   uint8    // packs that count
	before uint8    // snapshots that the first look followed
	stale  uint8    // packs that it found, of a second look that relies on them
	tick   uint8    // when it listed the leases
}

// state is the whole world. It is comparable, so that a map can hold those that were visited.
type state struct {
	now                         int8 // clock of the target
	tick                        uint8
	steps, crashes, late, drops uint8
	torn                        uint8
	packs, index                uint8
	old                         view // what a listing that lags may show
	snaps                       [3]snap
	marks                       [2]mark
	leases                      [2]lease
	busy                        [2]bool // a lease of a prune is there
	busyAt                      [2]int8
	w                           [2]writer
	p                           [2]pruner
	pending                     [2]bool // a snapshot of a dead writer is under way
}

type view struct {
	snaps, marks, busy uint8
	leases, fences     [2]uint8
}

func (s *state) view() (v view) {
	for i := range s.snaps {
		if s.snaps[i].there {
			v.snaps |= 1 << i
		}
	}
	for i := range s.marks {
		if s.marks[i].there {
			v.marks |= 1 << i
		}
	}
	for i := range s.leases {
		v.leases[i], v.fences[i] = s.leases[i].there, s.leases[i].fences
	}
	for i := range s.busy {
		if s.busy[i] {
			v.busy |= 1 << i
		}
	}
	return v
}

// views returns what a listing may show: what is there, and where listings lag, what was there at the last tick.
func (b *bounds) views(s *state) []view {
	v := []view{s.view()}
	if b.lag && s.old != v[0] {
		v = append(v, s.old)
	}
	return v
}

func start() state {
	s := state{packs: packOld, index: packOld}
	s.snaps[0] = snap{there: true}
	s.old = s.view()
	return s
}

// broken returns a snapshot that cannot be restored, or -1. A writer that is alive may still take back a snapshot that
// it has not confirmed. If it dies before, the snapshot shows by its gap that it is not reliable, and prune reports it.
// A gap proves nothing if the clock of the target steps.
func (b *bounds) broken(s *state) int {
	if s.packs&s.index != 0 {
		return -1
	}
	for i := range s.snaps {
		sn := &s.snaps[i]
		if !sn.there || sn.unsure && (s.w[i-1].pc != wDead || sn.late || b.steps > 0) {
			continue
		}
		return i
	}
	return -1
}
