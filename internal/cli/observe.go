package cli

import (
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
