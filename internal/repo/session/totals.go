package session

import (
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Totals is what a session has added to the repository so far, or in a dry run would have.
type Totals struct {
	DataBlobs, TreeBlobs uint64 // sealed into packs
	DataRaw, TreeRaw     uint64 // bytes of those blobs
	Packs                uint64 // stored
	Stored               uint64 // bytes of all files stored: packs, index segments, snapshots
	InPacks              uint64 // of these, bytes of packs
}

// slot is the index of a kind of packs in arrays of two.
func slot(kind pack.Kind) int {
	if kind == pack.Trees {
		return 1
	}
	return 0
}

// countFrame counts a frame that was sealed into a pack.
func (s *Session) countFrame(kind pack.Kind, blobs, raw int) {
	s.totalsMu.Lock()
	defer s.totalsMu.Unlock()
	t := &s.totals
	if kind == pack.Trees {
		t.TreeBlobs, t.TreeRaw = t.TreeBlobs+uint64(blobs), t.TreeRaw+uint64(raw)
	} else {
		t.DataBlobs, t.DataRaw = t.DataBlobs+uint64(blobs), t.DataRaw+uint64(raw)
	}
}

// countFile counts a file that was stored.
func (s *Session) countFile(kind store.Kind, size int) {
	s.totalsMu.Lock()
	defer s.totalsMu.Unlock()
	t := &s.totals
	if t.Stored += uint64(size); kind == store.Pack {
		t.Packs, t.InPacks = t.Packs+1, t.InPacks+uint64(size)
	}
}

// Totals returns the current numbers. After Flush they are complete except for the snapshot itself.
func (s *Session) Totals() Totals {
	s.totalsMu.Lock()
	defer s.totalsMu.Unlock()
	return s.totals
}
