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
	Limited  func() (held time.Duration, uploaded uint64) // see Ledger.Limit
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
	l.Limit(i.Limits, i.Limited)
	l.mu.Lock()
	l.outages = append(l.outages, &i.Outages)
	l.mu.Unlock()
	if i.Requests != nil {
		l.mu.Lock()
		l.requests = append(l.requests, i.Requests)
		l.mu.Unlock()
	}
	if i.timed = l.Snapshot().Job != Backup; i.timed {
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
