package restore

import (
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// dir is a directory of the target that is being filled. Its own metadata comes last, when everything in it is there.
type dir struct {
	parent   *dir
	name     string
	path     string     // inside the snapshot
	there    bool       // it exists in the target: it does not in a dry run, or while it is still to be made
	dev, ino uint64     // which directory it is; zero: not known
	node     *tree.Node // nil: its metadata is left as it is
	later    *tree.Node // still to be made, when something is to be put into it
	broken   bool       // could not be made
	scope    uint64     // of inode numbers: changes where a file system was mounted

	partial bool // the snapshot does not hold all that was in it
	mount   bool // a file system was mounted here when it was backed up
	mounted bool // a file system is mounted here now

	pending atomic.Int64 // entries not finished, and one for the walk
}

// place returns the path of d on this machine; base is that of the target.
func (d *dir) place(base string) string {
	if d.parent == nil {
		return base
	}
	return filepath.Join(d.parent.place(base), d.name)
}

// begin begins one more entry of d.
func (d *dir) begin() { d.pending.Add(1) }

// end finishes one entry of d, and d and its ancestors as far as that was their last one.
func (j *job) end(d *dir) {
	for d != nil && d.pending.Add(-1) == 0 {
		if d.node != nil && d.there && !j.to.DryRun {
			err := j.in(d, func(h *localfs.Dir) error {
				j.problems(d.path, h.Apply(".", j.owned(d.node), j.to.Apply))
				j.ledger.Objects.Restored.Add(1)
				return nil
			})
			if err != nil {
				j.tell(d.path, "restore", err)
			}
		}
		j.handles.drop(d)
		d = d.parent
	}
}

// in calls act with d, open.
func (j *job) in(d *dir, act func(*localfs.Dir) error) error {
	h, err := j.handles.get(d)
	if err != nil {
		return err
	}
	defer h.Release()
	return act(h)
}
