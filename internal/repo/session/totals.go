package session

import (
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Totals is what a session has added to the repository so far, or in a dry run would have.
type Totals struct {
	DataBlobs, TreeBlobs uint64 // sealed into packs
	DataRaw, TreeRaw     uint64 // bytes of those blobs
	Frames               uint64
	Packs                uint64 // stored
	Stored               uint64 // bytes of all files stored: packs, index segments, snapshots
	InPacks              uint64 // of these, bytes of packs
}

type totals struct {
	blobs, raw            [2]atomic.Uint64 // by slot of the kind
	frames, packs, stored atomic.Uint64
	inPacks               atomic.Uint64
}

// slot is the index of a kind of packs in arrays of two.
func slot(kind pack.Kind) int {
	if kind == pack.Trees {
		return 1
	}
	return 0
}

func (t *totals) frame(kind pack.Kind, blobs, raw int) {
	i := slot(kind)
	t.blobs[i].Add(uint64(blobs))
	t.raw[i].Add(uint64(raw))
	t.frames.Add(1)
}

func (t *totals) files(kind store.Kind, size int) {
	if kind == store.Pack {
		t.packs.Add(1)
		t.inPacks.Add(uint64(size))
	}
	t.stored.Add(uint64(size))
}

// Totals returns the current numbers. After Flush they are complete except for the snapshot itself.
func (s *Session) Totals() Totals {
	t := &s.totals
	return Totals{
		DataBlobs: t.blobs[0].Load(), TreeBlobs: t.blobs[1].Load(),
		DataRaw: t.raw[0].Load(), TreeRaw: t.raw[1].Load(),
		Frames: t.frames.Load(), Packs: t.packs.Load(), Stored: t.stored.Load(),
		InPacks: t.inPacks.Load(),
	}
}
