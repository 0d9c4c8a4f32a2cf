package backup

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/recall"
	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// job is one directory on its way from scanned to stored. It ends when its batches and its children have ended.
type job struct {
	dir    *scan.Directory
	parent *job

	// What the hash cache said of it.
	key    signature.Signature
	local  signature.Signature // signature of the entries as scanned
	cached signature.Memo
	ref    hashcache.DirRef
	looked bool // it was asked
	known  bool // and had an answer
	signed bool // local is that of the entries
	clean  bool // local equals the cached one: every entry is as it was
	racy   bool // an entry must be looked at again next time, mostly because it changed too recently for its times to be trusted

	old      recall.Tree // the tree it had in the snapshot compared with
	states   []state     // of each entry; nil when clean
	results  []result    // of each entry; nil when clean
	children []child     // by slot
	self     extra       // of the directory itself, when it is new or changed
	failed   bool        // could not be listed, or not to its end
	gone     bool        // vanished, or became something else, before it was opened: left out
	scanned  time.Time

	pending atomic.Int32 // batches and children outstanding, and one for the compare stage
	tree    format.ID    // set when finished
}

// newJob returns the job of a scanned directory.
func (p *pipeline) newJob(d *scan.Directory) *job {
	j, ok := p.jobs.Get().(*job)
	if !ok {
		j = &job{}
	}
	j.dir = d
	d.User = j
	return j
}

// child is what a finished subdirectory leaves behind in its parent's job.
type child struct {
	tree   format.ID
	self   extra
	failed bool
	gone   bool
}

// state is how an entry compares with the snapshot compared with.
type state uint8

const (
	isNew state = iota
	isChanged
	isSame
)

// result is what reading an entry gave. A directory of new files has one for each, so what is rare sits behind a
// pointer.
type result struct {
	chunks  []tree.Chunk
	inline  []byte
	extra   *extra
	outcome tree.Outcome
	gone    bool // vanished, or became something else, between scan and read: left out
}

// extra is what most objects do not have.
type extra struct {
	xattrs []tree.Xattr
	flags  uint64
	target string
	device uint64
	access *tree.Time
	list   format.ID // of chunks, when they are too many for the node
	link   *linked   // of the name that reads for all names of a file

	incomplete bool // some of the attributes or flags could not be read
}

func (r *result) more() *extra {
	if r.extra == nil {
		r.extra = &extra{}
	}
	return r.extra
}

// done ends one part of j, and finishes j and then its ancestors as far as that was their last part.
func (p *pipeline) done(ctx context.Context, j *job) error {
	for j != nil && j.pending.Add(-1) == 0 {
		if !j.gone {
			if err := p.finish(ctx, j); err != nil {
				return err
			}
		}
		if j.parent != nil {
			j.parent.children[j.dir.Slot] = child{tree: j.tree, self: j.self, failed: j.failed, gone: j.gone}
		}
		above := j.parent
		p.let(j)
		j = above
	}
	return nil
}

// let gives up what a finished job has held.
func (p *pipeline) let(j *job) {
	if !j.clean {
		j.states, j.results, j.children, j.dir.Entries, j.dir.Listing = nil, nil, nil, nil, nil
		return
	}
	j.dir.Recycle() // no reader and no other name of a file had to do with it
	if len(j.children) > 0 || j.parent == nil {
		j.children = nil
		return
	}
	// Most directories are unchanged and have none below: this one, and nobody but the caller, knows the job.
	*j = job{}
	p.jobs.Put(j)
}
