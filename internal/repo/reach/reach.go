// Package reach follows snapshots to every blob that they need. A check and a prune use the same walk: they differ in
// how they read a page and in what they do with what is missing or damaged.
//
//	snapshots ─► queue of directories ─► workers: pages ─► nodes ─┬─► directories not visited before ─► queue
//	                                                              ├─► chunk lists not visited before
//	                                                              └─► chunks, looked up in sorted batches
//
// Directories and chunk lists are read, file data is not. Each directory and each list is visited once, whichever
// snapshots share it. In memory are one bit for each blob of the index, a tenth of a byte that leads to its place, and
// the queue, which is about as long as the directories on one path have entries.
package reach

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// chunkBatch is how many chunks of files a worker looks up together.
const chunkBatch = 16 << 10

// Visitor decides what happens with what a worker reaches. Each worker has its own. An error ends the walk.
type Visitor interface {
	// Load returns the bytes of a page of a directory or of a chunk list.
	Load(ctx context.Context, id format.ID, at *index.Place) ([]byte, error)
	// Chunks receives chunks of files and their places. The chunks are sorted by ID.
	Chunks(chunks []tree.Chunk, at []index.Place) error
	// Damaged receives the directory or chunk list that cannot be followed, and why: an error of Load, of the decoder,
	// or ErrSize. If it returns nil, the worker goes on with the pages that can be read.
	Damaged(ctx context.Context, id format.ID, err error) error
	// Queued is called with the number of directories that were met for the first time.
	Queued(dirs int)
	// Intact is called after a directory was followed without a call of Damaged.
	Intact()
}

// Walk is one walk over snapshots.
type Walk struct {
	Index   *index.Temporary
	Workers int
	Role    string // of the workers in the ledger
	Ledger  *report.Ledger
	Visitor func() Visitor

	queue   *queue[dir]
	visited Bitset // directories and chunk lists, by their numbers
	mu      sync.Mutex
	lost    map[format.ID]struct{} // directories and lists that no pack holds, which have no number
}

// dir is a directory that waits in the queue. Its place was looked up when it was met.
type dir struct {
	id format.ID
	at index.Place
}

// Run follows trees, the last one first, to all their blobs.
func (w *Walk) Run(ctx context.Context, roots []format.ID) error {
	w.queue, w.visited, w.lost = newQueue[dir](), NewBitset(w.Index.Blobs()), make(map[format.ID]struct{})
	first := &worker{Walk: w, visitor: w.Visitor()}
	for _, root := range slices.Backward(roots) {
		if err := first.push([]format.ID{root}); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for range w.Workers {
		g.Go(func() error {
			v := &worker{Walk: w, visitor: w.Visitor()}
			clock := w.Ledger.Worker(w.Role)
			defer clock.Stop()
			ctx := clock.Within(ctx)
			err := w.queue.each(ctx, func(d dir) error {
				defer clock.Enter(clock.Enter(report.Unpack))
				return v.dir(ctx, d)
			})
			if err != nil {
				return err
			}
			defer clock.Enter(clock.Enter(report.Unpack))
			return v.lookUp()
		})
	}
	return g.Wait()
}

// first reports whether a directory or chunk list is met for the first time.
func (w *Walk) first(id format.ID, at *index.Place) bool {
	if !at.Lost() {
		return w.visited.Add(at.Number())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, met := w.lost[id]
	w.lost[id] = struct{}{}
	return !met
}

// worker is one goroutine of a walk.
type worker struct {
	*Walk
	visitor Visitor
	places  []index.Place // of the last lookup
	root    dir           // directory or chunk list that is read now
	damaged bool          // something in this directory
	dirs    []format.ID
	fresh   []dir
	chunks  []tree.Chunk // to be looked up
	ids     []format.ID
}

// push queues those directories that were not met before.
func (w *worker) push(ids []format.ID) error {
	places, err := w.locate(ids)
	if err != nil {
		return err
	}
	w.fresh = w.fresh[:0]
	for i, id := range ids {
		if w.first(id, &places[i]) {
			w.fresh = append(w.fresh, dir{id, places[i]})
		}
	}
	w.visitor.Queued(len(w.fresh))
	w.queue.push(w.fresh...)
	return nil
}

// locate returns the places of blobs, valid until the next call.
func (w *worker) locate(ids []format.ID) (_ []index.Place, err error) {
	w.places, err = w.Index.Locate(w.places, ids)
	return w.places, err
}

func (w *worker) load(ctx context.Context, id format.ID) ([]byte, error) {
	if id == w.root.id {
		return w.visitor.Load(ctx, id, &w.root.at)
	}
	at, err := w.Index.LocateOne(id)
	if err != nil {
		return nil, err
	}
	return w.visitor.Load(ctx, id, &at)
}

func (w *worker) fail(ctx context.Context, id format.ID, err error) error {
	w.damaged = true
	return w.visitor.Damaged(ctx, id, err)
}

// dir visits one directory. The directories in it are queued after all of its pages were read.
func (w *worker) dir(ctx context.Context, d dir) error {
	w.root, w.dirs, w.damaged = d, w.dirs[:0], false
	visit := func(n *tree.Node) error { return w.node(ctx, n) }
	if err := tree.Walk(ctx, w.load, d.id, visit); err != nil {
		if err := w.fail(ctx, d.id, err); err != nil {
			return err
		}
		if err := w.rest(ctx, d.id); err != nil {
			return err
		}
	}
	if !w.damaged {
		w.visitor.Intact()
	}
	if len(w.dirs) == 0 {
		return nil
	}
	return w.push(w.dirs)
}

// rest visits a damaged directory page by page, so that what lies behind the damage is visited as well.
func (w *worker) rest(ctx context.Context, id format.ID) error {
	return EachPage(ctx, w.load, id, func(_ format.ID, pg *tree.Page, err error) error {
		if err != nil {
			return w.fail(ctx, id, err)
		}
		for i := range pg.Nodes {
			if err := w.node(ctx, &pg.Nodes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *worker) node(ctx context.Context, n *tree.Node) error {
	switch {
	case n.Type == tree.Dir:
		w.dirs = append(w.dirs, n.Subtree)
		return nil
	case n.Type != tree.File:
		return nil
	case !n.Content.List.IsZero():
		return w.list(ctx, n)
	}
	size := uint64(len(n.Content.Inline))
	for _, c := range n.Content.Chunks {
		size += c.Len
		if err := w.chunk(c); err != nil {
			return err
		}
	}
	if size != 0 && size != n.Size {
		return w.wrongSize(ctx, n, size)
	}
	return nil
}

// list visits the chunk list of a large file.
func (w *worker) list(ctx context.Context, n *tree.Node) error {
	id := n.Content.List
	at, err := w.Index.LocateOne(id)
	if err != nil || !w.first(id, &at) {
		return err
	}
	size := uint64(0)
	within := w.root
	w.root = dir{id, at}
	err = tree.WalkList(ctx, w.load, id, func(c tree.Chunk) error {
		size += c.Len
		return w.chunk(c)
	})
	if err == nil && size == n.Size {
		w.root = within
		return nil
	}
	if err == nil {
		w.root = within
		return w.wrongSize(ctx, n, size)
	}
	if err = w.fail(ctx, id, err); err == nil {
		err = w.restOfList(ctx, id)
	}
	w.root = within
	return err
}

func (w *worker) restOfList(ctx context.Context, id format.ID) error {
	return EachListPage(ctx, w.load, id, func(_ format.ID, pg *tree.ListPage, err error) error {
		if err != nil {
			return w.fail(ctx, id, err)
		}
		for _, c := range pg.Chunks {
			if err := w.chunk(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *worker) wrongSize(ctx context.Context, n *tree.Node, content uint64) error {
	return w.fail(ctx, w.root.id, fmt.Errorf("file %q: %w (%d of %d bytes): %w", n.Name, ErrSize, content, n.Size,
		format.ErrCorrupt))
}

func (w *worker) chunk(c tree.Chunk) error {
	if c.IsHole() {
		return nil
	}
	if w.chunks = append(w.chunks, c); len(w.chunks) < chunkBatch {
		return nil
	}
	return w.lookUp()
}

// lookUp passes the gathered chunks to the visitor.
func (w *worker) lookUp() error {
	slices.SortFunc(w.chunks, func(a, b tree.Chunk) int { return a.ID.Compare(b.ID) })
	w.chunks = slices.Compact(w.chunks)
	w.ids = w.ids[:0]
	for i := range w.chunks {
		w.ids = append(w.ids, w.chunks[i].ID)
	}
	places, err := w.locate(w.ids)
	if err == nil {
		err = w.visitor.Chunks(w.chunks, places)
	}
	w.chunks = w.chunks[:0]
	return err
}
