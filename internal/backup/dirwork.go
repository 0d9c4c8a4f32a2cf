package backup

import (
	"context"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/backup/read"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// dirWork is one directory on its way from scanned to stored. It ends when its portions and its subdirectories have
// ended.
type dirWork struct {
	flow   *pipeline
	dir    *scan.Directory
	parent *dirWork

	compared compare.Dir
	reading  read.Dir   // unused when compared.Clean
	self     read.Extra // of the directory itself, when it is new or changed
	children []child    // by scan.Directory.Slot
	stored   []bool     // by entry: its content is stored; nil: the run has no checkpoints
	gone     bool       // vanished or was replaced before it was opened: left out
	held     amount
	place    *place // nil: there is no source here or below

	fresh atomic.Uint64 // bytes of its files that the repository lacked
	below atomic.Uint64 // likewise, of subdirectories that have no sum of their own

	pending atomic.Int32 // portions and subdirectories in flight, and one for the visitor
	tree    format.ID    // set when finished
}

// child is a subdirectory in its parent's work: zero, the work on it, or the result when it has finished.
type child struct {
	work       *dirWork // while it is in work
	tree       format.ID
	self       read.Extra
	held       amount
	incomplete bool
	gone       bool
}

// newDirWork returns the work on a scanned directory.
func (p *pipeline) newDirWork(d *scan.Directory) *dirWork {
	j, ok := p.idle.Get().(*dirWork)
	if !ok {
		j = &dirWork{}
	}
	j.flow, j.dir, j.compared.Scanned = p, d, d
	d.User = j
	return j
}

// Begin adds a part to j, which ends it.
func (j *dirWork) Begin() { j.pending.Add(1) }

// Stored notes that an entry can be part of a partial snapshot.
func (j *dirWork) Stored(entry uint32) {
	if j.stored == nil {
		return
	}
	j.flow.mu.Lock()
	j.stored[entry] = true
	j.flow.mu.Unlock()
}

// begun shows j to checkpoints, until it has ended. What they read of it does not change meanwhile, except for what mu
// guards.
func (p *pipeline) begun(j *dirWork) {
	if !p.partial() {
		return
	}
	if !j.compared.Clean {
		j.stored = make([]bool, len(j.dir.Entries))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.parent == nil {
		p.top = j
	} else {
		j.parent.children[j.dir.Slot].work = j
	}
}

// ended puts the result of j into its parent's work, and into its place.
func (p *pipeline) ended(j *dirWork) {
	if p.partial() {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	j.counted()
	if j.parent == nil {
		p.top = nil
	} else {
		j.parent.children[j.dir.Slot] = child{tree: j.tree, self: j.self, held: j.held,
			incomplete: j.compared.Incomplete, gone: j.gone}
	}
}

// End ends a part of j. The last part finishes j, and then each ancestor that has no other part left.
func (j *dirWork) End(ctx context.Context) error {
	for j != nil && j.pending.Add(-1) == 0 {
		if !j.gone {
			if err := j.flow.finish(ctx, j); err != nil {
				return err
			}
		}
		j.flow.ended(j)
		above := j.parent
		if fresh, below := j.fresh.Load(), j.below.Load(); fresh+below > 0 && j.flow.deps.growth != nil {
			if rest := j.flow.deps.growth.folder(j.dir.Path(), fresh, below); above != nil {
				above.below.Add(rest)
			}
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
	// Most directories are unchanged and have no subdirectories. Only the caller refers to the work on such a one.
	p := j.flow
	*j = dirWork{}
	p.idle.Put(j)
}
