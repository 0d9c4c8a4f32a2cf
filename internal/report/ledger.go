// Package report records the work of a job: one Ledger of atomic counters and stage clocks, written by the workers of a
// backup, restore, check or prune. The progress view, the log lines, the final report, the JSON events and the state
// printed on a signal are all derived from it.
//
// The package sees numbers, stages, paths and errors only. No number here decides what is backed up.
package report

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is the kind of work a Ledger is kept for; it decides which lines a report has.
type Kind uint8

// The jobs.
const (
	Backup Kind = iota
	Restore
	Check
	Prune
	Copy
)

// Phase is the part of a job that is under way; phases follow each other, unlike stages, which overlap.
type Phase uint8

// The phases of the jobs.
const (
	Opening    Phase = iota // repository, keys, blob index
	Scanning                // backup: scan, compare, read, store: the bulk of the work
	Uploading               // backup: all is read; the last packs are on their way
	Saving                  // backup: index and snapshot
	Planning                // restore, check: finding out what there is to do
	Restoring               // restore: file data
	Finishing               // restore: metadata of directories
	Checking                // check: structure
	Verifying               // check: reading data back
	Listing                 // prune: marks, leases, snapshots, index and packs
	Following               // prune: what snapshots need
	Repacking               // prune: what is needed of half-empty packs
	Marking                 // prune: a deletion mark names the unused packs
	Indexing                // prune: index segments without what goes
	Removing                // prune: packs
	Copying                 // copy: a snapshot
	Done                    // everything is over
	phaseCount = iota
)

// Ledger holds the numbers of one job. The counters are added to directly; everything is safe for concurrent use.
type Ledger struct {
	TallyOf[Counter]
	Packs PacksOf[Counter]

	job   Kind
	now   func() time.Time
	start time.Time

	mu         sync.Mutex // guards what follows
	clocks     map[*Clock]struct{}
	started    uint64     // clocks ever
	ended      StageTimes // of clocks that were stopped
	blocked    int        // callers: see Blocked
	phase      Phase
	phaseSince time.Duration
	phases     [phaseCount]time.Duration
	expected   Expected
	gates      func() []Gate // nil: there are none
	policies   []PolicySpan
	sizes      []PoolSizes
	steps      uint64 // ever begun
	step       *Step  // nil: the phase has none
	course     StepTotals
	pid        int // see Reachable
	limits     Limits
	limited    func() (held time.Duration, uploaded uint64) // see Intake
	requests   []func() Requests                            // of the stores that charge for requests
	outages    []*Outages                                   // of the targets

	issues  issues
	doubted atomic.Uint64 // calls of Doubt
}

// New returns the ledger of a backup that begins now. now must have a monotonic reading or otherwise never go back.
func New(now func() time.Time) *Ledger { return NewJob(Backup, now) }

// NewJob returns the ledger of a job that begins now.
func NewJob(job Kind, now func() time.Time) *Ledger {
	return &Ledger{job: job, now: now, start: now(), clocks: make(map[*Clock]struct{})}
}

// Add adds what a worker counted by itself.
func (l *Ledger) Add(t *Tally) {
	to := l.fields()
	for i, n := range t.fields() {
		if *n != 0 {
			to[i].Add(*n)
		}
	}
}

// Phase says which part of the job begins.
func (l *Ledger) Phase(p Phase) {
	at := l.since()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phases[l.phase] += at - l.phaseSince
	l.phase, l.phaseSince, l.step = p, at, nil
}

// Expect sets what the job is thought to amount to, unless that has been counted: for a backup what the parent snapshot
// holds, then what a counting walk of the sources finds. The estimate of the time left needs it.
func (l *Ledger) Expect(e Expected) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Exact || !l.expected.Exact {
		l.expected = e
	}
}

// Reachable records the process ID by which 'tidemark tier set' changes the job.
func (l *Ledger) Reachable(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pid = pid
}

// Scanned says that every object of the sources has been inspected, so that the totals are known from now on.
func (l *Ledger) Scanned() {
	l.Expect(Expected{Objects: l.Objects.Inspected.Load(), Bytes: l.Bytes.Inspected.Load(), Exact: true})
}

// Snapshot copies the numbers.
func (l *Ledger) Snapshot() Totals {
	var t Totals
	to := t.fields()
	for i, c := range l.fields() {
		*to[i] = c.Load()
	}
	t.Packs = PacksOf[uint64]{l.Packs.Stored.Load(), l.Packs.Fetched.Load()}
	t.Failures, t.Notes = l.issues.counts()
	t.Doubted = l.doubted.Load()
	t.Job, t.Start = l.job, l.start
	l.mu.Lock()
	gates, requests := l.gates, l.requests
	l.mu.Unlock() // these take locks of their own
	if gates != nil {
		t.Gates = gates()
	}
	for _, count := range requests {
		r := count()
		t.Requests.Put, t.Requests.Get = t.Requests.Put+r.Put, t.Requests.Get+r.Get
		t.Requests.Delete += r.Delete
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	t.Elapsed = l.since()
	t.Stages = l.ended
	for c := range l.clocks {
		c.addTo(&t.Stages, t.Elapsed)
	}
	t.Stages[WaitStore] += time.Duration(l.blocked) * t.Elapsed
	t.Stages[Compress] -= time.Duration(l.blocked) * t.Elapsed
	for i := range t.Stages {
		t.Stages[i] = max(0, t.Stages[i])
	}
	t.Workers = len(l.clocks)
	t.Phase, t.Phases, t.Expected, t.Step = l.phase, l.phases, l.expected, l.stepTotals()
	t.Phases[l.phase] += t.Elapsed - l.phaseSince
	t.Policies = slices.Clone(l.policies)
	t.PoolSizes = slices.Clone(l.sizes)
	t.PID = l.pid
	t.Limits = l.limits
	if l.limited != nil {
		t.Limited, t.Uploaded = l.limited()
	}
	for _, o := range l.outages {
		now := o.now()
		t.Outage.Why, t.Outage.Took = cmp.Or(t.Outage.Why, now.Why), t.Outage.Took+now.Took
	}
	return t
}

// since is the time since the ledger was made.
func (l *Ledger) since() time.Duration { return max(0, l.now().Sub(l.start)) }
