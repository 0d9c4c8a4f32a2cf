package cli

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// observer records the events of a repository session in the ledger.
type observer struct {
	ledger *report.Ledger
	note   func(string)
}

// Sealed counts the bytes that compression left.
func (o *observer) Sealed(_ pack.Kind, _, _, sealed int) {
	o.ledger.Bytes.Compressed.Add(uint64(sealed))
}

// Stored counts a file that reached the target.
func (o *observer) Stored(kind store.Kind, size int, took time.Duration) {
	o.ledger.AddTime(report.Store, took)
	o.ledger.Bytes.Stored.Add(uint64(size))
	o.ledger.Bytes.Transferred.Add(uint64(size))
	if kind == store.Pack {
		o.ledger.Packs.Stored.Add(1)
	}
}

// Waiting counts the time in which a worker is blocked by the store.
func (o *observer) Waiting() (end func()) { return o.ledger.Blocked() }

// Note prints a note.
func (o *observer) Note(text string) { o.note(text) }
