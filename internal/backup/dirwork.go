package backup

import (
	"context"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/backup/read"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// dirWork is one directory on its way from scanned to stored. It ends when its batches and its subdirectories have
// ended.
type dirWork struct {
	flow   *pipeline
	dir    *scan.Directory
	parent *dirWork

	compared compare.Dir
	reading  read.Dir   // unused when compared.Clean
	self     read.Extra // of the directory itself, when it is new or changed
	children []child    // by scan.Directory.Slot
	gone     bool       // vanished or was replaced before it was opened: left out
	cut      bool       // left out for now, since the walk was cut before it
	held     amount
	place    *place // nil: there is no source here or below

	pending atomic.Int32 // batches and subdirectories in flight, and one for the visitor
	tree    format.ID    // set when finished
}

// child is the result of a finished subdirectory, kept in its parent's job.
type child struct {
	tree       format.ID
	self       read.Extra
	held       amount
	incomplete bool
	gone, cut  bool
}

// newDirWork returns the work on a scanned directory.
func (p *pipeline) newDirWork(d *scan.Directory) *dirWork {
	j, ok := p.jobs.Get().(*dirWork)
	if !ok {
		j = &dirWork{}
	}
	j.flow, j.dir, j.compared.Scanned = p, d, d
	d.User = j
	return j
}

// Begin adds a part to j, which ends it.
func (j *dirWork) Begin() { j.pending.Add(1) }

// End ends a part of j. The last part finishes j, and then each ancestor that has no other part left.
func (j *dirWork) End(ctx context.Context) error {
	for j != nil && j.pending.Add(-1) == 0 {
		if !j.gone {
			if err := j.flow.finish(ctx, j); err != nil {
				return err
			}
		}
		j.counted()
		above := j.parent
		if above != nil {
			above.children[j.dir.Slot] = child{j.tree, j.self, j.held, j.compared.Incomplete, j.gone, j.cut}
		}
		j.release()
		j = above
	}
	return nil
}

// release frees the memory of a finished job.
func (j *dirWork) release() {
	if !j.compared.Clean {
		j.compared.States, j.reading.Results, j.children, j.dir.Entries, j.dir.Listing = nil, nil, nil, nil, nil
		return
	}
	j.dir.Recycle() // no reader and no other name of a file refers to it
	if len(j.children) > 0 || j.parent == nil {
		j.children = nil
		return
	}
	// Most directories are unchanged and have no subdirectories. Only the caller refers to the job of such a one.
	p := j.flow
	*j = dirWork{}
	p.jobs.Put(j)
}
