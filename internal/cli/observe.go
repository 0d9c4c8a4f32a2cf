package cli

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// observer books what a session does in the ledger.
type observer struct {
	ledger *report.Ledger
	note   func(string)
}

// Sealed books what compression left.
func (o *observer) Sealed(_ pack.Kind, _, _, sealed int) {
	o.ledger.Bytes.Compressed.Add(uint64(sealed))
}

// Stored books what reached the target.
func (o *observer) Stored(kind store.Kind, size int, took time.Duration) {
	o.ledger.Book(report.Store, took)
	o.ledger.Bytes.Stored.Add(uint64(size))
	o.ledger.Bytes.Transferred.Add(uint64(size))
	if kind == store.Pack {
		o.ledger.Packs.Stored.Add(1)
	}
}

// Waited moves time that a worker spent standing still from the stage in which it was caught by it.
func (o *observer) Waited(took time.Duration) {
	o.ledger.Book(report.WaitStore, took)
	o.ledger.Book(report.Compress, -took)
}

// Note passes on.
func (o *observer) Note(text string) { o.note(text) }

// intake counts what comes from the repository. What comes before there is a ledger, such as the index, is booked when
// there is one.
type intake struct {
	mu     sync.Mutex
	ledger *report.Ledger
	timed  bool // of a job that has no other books of the time
	bytes  uint64
	took   time.Duration // by Gets that no worker's clock has booked
	packs  map[store.Name]bool
}

// book sends what was counted, and what will be, to a ledger.
func (i *intake) book(l *report.Ledger) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ledger = l
	// The workers of a backup book the time themselves, as part of comparing or of storing.
	if i.timed = l.Snapshot().Job != report.Backup; i.timed {
		l.Book(report.Fetch, i.took)
	}
	l.Bytes.Fetched.Add(i.bytes)
	l.Packs.Fetched.Add(uint64(len(i.packs)))
}

func (i *intake) add(name store.Name, n int, took time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	first := name.Kind == store.Pack && !i.packs[name]
	if first {
		if i.packs == nil {
			i.packs = map[store.Name]bool{}
		}
		i.packs[name] = true
	}
	i.bytes += uint64(n)
	i.took += took
	if i.ledger == nil {
		return
	}
	i.ledger.Bytes.Fetched.Add(uint64(n))
	if i.timed {
		i.ledger.Book(report.Fetch, took)
	}
	if first {
		i.ledger.Packs.Fetched.Add(1)
	}
}

// metered is a store whose answers are counted.
type metered struct {
	store.Store
	intake *intake
}

// Proves is what the store beneath says.
func (m *metered) Proves() bool { return store.Proves(m.Store) }

// Get passes on, and counts what came. A worker whose clock is in ctx is fetching meanwhile, and what it did before is
// what it goes on with.
func (m *metered) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	leave, booked := report.Visit(ctx, report.Fetch)
	start := time.Now()
	err := m.Store.Get(ctx, name, off, p)
	leave()
	took := time.Since(start)
	if booked {
		took = 0
	}
	if err == nil {
		m.intake.add(name, len(p), took)
	}
	return err //nolint:wrapcheck // a decorator adds nothing
}
