package report

import (
	"context"
	"sync"
	"time"
)

// Intake counts what a process reads from a repository, in the ledger of its job. Reads before the ledger exists, such
// as those of the index, are added when it is attached. The zero value is ready to use.
type Intake struct {
	Limits   Limits                                       // of the transfers; set before Attach
	Limited  func() (held time.Duration, uploaded uint64) // how long they held transfers, and what was uploaded; or nil
	Requests func() Requests                              // so far; nil: none
	Outages  Outages

	mu     sync.Mutex
	ledger *Ledger
	timed  bool // the ledger of a backup is not: its workers' clocks count the time, as part of Compare or Store
	bytes  uint64
	took   time.Duration // of reads outside any worker's clock
	packs  map[string]bool
}

// Attach adds the counts so far to l, and from now on each read.
func (i *Intake) Attach(l *Ledger) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ledger = l
	l.mu.Lock()
	l.limits, l.limited = i.Limits, i.Limited
	l.outages = append(l.outages, &i.Outages)
	if i.Requests != nil {
		l.requests = append(l.requests, i.Requests)
	}
	l.mu.Unlock()
	if i.timed = l.job != Backup; i.timed {
		l.AddTime(Fetch, i.took)
	}
	l.Bytes.Fetched.Add(i.bytes)
	l.Packs.Fetched.Add(uint64(len(i.packs)))
}

// Begin starts a read. A worker whose clock is in ctx is in the stage Fetch until end is called; end takes the number
// of bytes, 0 if the read failed, and the name of the pack that was read, "" for another file.
func (i *Intake) Begin(ctx context.Context) (end func(pack string, n int)) {
	leave, onClock := Visit(ctx, Fetch)
	start := time.Now()
	return func(pack string, n int) {
		leave()
		took := time.Since(start)
		if onClock {
			took = 0
		}
		if n > 0 {
			i.add(pack, uint64(n), took)
		}
	}
}

func (i *Intake) add(pack string, n uint64, took time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	first := pack != "" && !i.packs[pack]
	if first {
		if i.packs == nil {
			i.packs = map[string]bool{}
		}
		i.packs[pack] = true
	}
	i.bytes += n
	i.took += took
	if i.ledger == nil {
		return
	}
	i.ledger.Bytes.Fetched.Add(n)
	if i.timed {
		i.ledger.AddTime(Fetch, took)
	}
	if first {
		i.ledger.Packs.Fetched.Add(1)
	}
}

// Limits are the rates, in bytes a second, that the user allows for transfers to and from the repository; 0: any.
type Limits struct {
	Upload   int64 `json:"limit_upload,omitempty"` // bytes a second
	Download int64 `json:"limit_download,omitempty"`
}

// Requests counts the requests to a store whose provider charges for each, in the classes of the usual price lists.
// Those that failed and those that were repeated count.
type Requests struct {
	Put    uint64 `json:"put"`    // PUT, LIST and all others
	Get    uint64 `json:"get"`    // GET and HEAD
	Delete uint64 `json:"delete"` // mostly free
}

// toUpload returns how many bytes of a backup wait to be stored because the upload rate is limited.
func (t *Totals) toUpload() uint64 {
	if t.Job != Backup || t.Limits.Upload <= 0 {
		return 0
	}
	return minus(t.Bytes.Compressed, t.Uploaded)
}

// LeastOutage is the shortest time without an answer that texts mention.
const LeastOutage = time.Second

// Outages are the times in which a target does not answer, and what failed is tried again. The zero value is ready, for
// any number of goroutines.
type Outages struct {
	mu    sync.Mutex
	why   string    // of the present one; "": there is none
	since time.Time // when it began
	ended time.Duration
}

// Outage is what reports say of the outages of a job.
type Outage struct {
	Why  string        // of the one that lasts; "": the target answers
	Took time.Duration // of all of them so far
}

// Begin begins an outage, or gives the present one another reason.
func (o *Outages) Begin(why string) { o.BeginAt(why, time.Now()) }

// BeginAt is Begin for an outage that began earlier and is only noticed now.
func (o *Outages) BeginAt(why string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == "" {
		o.since = at
	}
	o.why = why
}

// End ends the present outage.
func (o *Outages) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why != "" {
		o.ended += time.Since(o.since)
		o.why = ""
	}
}

// now returns what there is to report.
func (o *Outages) now() Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == "" {
		return Outage{Took: o.ended}
	}
	return Outage{o.why, o.ended + time.Since(o.since)}
}
