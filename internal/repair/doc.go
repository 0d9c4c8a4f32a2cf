// Package repair repairs a damaged repository: its index from the packs, its packs from what can still be read of them,
// and its snapshots by leaving out what is lost. A backup of a source that still has the data recovers more than all
// of these, so it comes first where that is possible.
//
//	Index      packs ──► tables ──► segments for what the index lacks or has wrong
//	Packs      packs that marks name as damaged ──► frames that open ──► other packs; what is lost, by path
//	Snapshots  snapshots that need what is lost ──► snapshots without it, proven ──► the originals go
//
// Each is a writer with a lease, as a backup is, and follows its order on the target: packs, index, snapshot. A damaged
// pack is never removed here. Its mark is its quarantine: no writer relies on the pack, check and prune report it, and
// a prune removes it once no snapshot needs anything that lies in it alone.
package repair

import (
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// MaxLosses is how many losses a result names; the rest are counted.
const MaxLosses = 1000

// Loss is one object of a snapshot that lost its content or a part of it.
type Loss struct {
	// snapshot with a file or folder that lost data; its path, `/` for an unreadable snapshot
	Snapshot format.ID `json:"snapshot_id"`
	event.Path
}

// Losses are what snapshots have lost.
type Losses struct {
	List []Loss // the first MaxLosses
	More uint64
}

func (l *Losses) add(snapshot format.ID, path string) {
	if len(l.List) == MaxLosses {
		l.More++
		return
	}
	l.List = append(l.List, Loss{snapshot, event.NewPath(path)})
}

// Count is how many there are.
func (l *Losses) Count() uint64 { return uint64(len(l.List)) + l.More }
