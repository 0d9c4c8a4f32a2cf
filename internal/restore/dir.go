package restore

import (
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// dir is a directory of the target that is being filled. Its own metadata comes last, when everything in it is there.
type dir struct {
	parent *dir
	name   string
	path   string       // inside the snapshot
	handle *localfs.Dir // nil in a dry run where it does not exist
	node   *tree.Node   // nil: its metadata is left as it is
	scope  uint64       // of inode numbers: changes where a file system was mounted

	partial bool // the snapshot does not hold all that was in it
	mount   bool // a file system was mounted here when it was backed up
	mounted bool // a file system is mounted here now

	pending atomic.Int64 // entries not finished, and one for the walk
}

// child begins one more entry of d.
func (d *dir) begin() { d.pending.Add(1) }

// end finishes one entry of d, and d and its ancestors as far as that was their last one.
func (j *job) end(d *dir) {
	for d != nil && d.pending.Add(-1) == 0 {
		if d.node != nil && d.handle != nil && !j.to.DryRun {
			j.problems(d.path, d.handle.Apply(".", j.owned(d.node), j.to.Apply))
			j.ledger.Objects.Restored.Add(1)
		}
		if d.handle != nil {
			d.handle.Release()
		}
		d = d.parent
	}
}
