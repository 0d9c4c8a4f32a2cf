package closure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/check/finding"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/numset"
	"github.com/tidemark-backup/tidemark/internal/repo/todo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// chunkBatch is how many chunks of files are looked up together.
const chunkBatch = 16 << 10

// Walk makes sure that every blob that the snapshots need is in a pack that is there. Folders and lists of chunks are
// read; of file data only the places are looked up. Snapshots that cannot be read are passed over.
func (c *Closure) Walk(ctx context.Context, snapshots []repo.Listed) error {
	w := &walk{c: c, work: todo.New[folder](), seen: numset.New(c.Blobs.total), lost: make(map[format.ID]struct{})}
	root := &visitor{walk: w}
	for _, s := range slices.Backward(snapshots) {
		if err := root.folders([]format.ID{s.Snapshot.Tree}); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for range c.Parallel {
		g.Go(func() error {
			v := &visitor{walk: w, hasher: c.Keys.Hasher(), clock: c.Ledger.Worker("checker")}
			defer v.clock.Stop()
			if err := v.run(v.clock.Within(ctx)); err != nil {
				return err
			}
			return v.lookUp()
		})
	}
	err := g.Wait()
	c.Book.Count(func(r *finding.Result) { r.Trees = w.trees.Load() })
	if err == nil && w.strays > 0 {
		c.judgeStrays(w)
	}
	return err
}

// judgeStrays says that snapshots need packs that no segment names. Beside a damaged segment that is no news.
func (c *Closure) judgeStrays(w *walk) {
	const text = "no segment that can be read names %d blobs that snapshots need; they are in packs outside the index, " +
		"such as %s"
	if c.Book.Has(finding.Index) {
		c.Book.Note(text, w.strays, w.stray)
		return
	}
	c.Book.Add(finding.Index, format.ID{}, "index", fmt.Errorf(text, w.strays, w.stray))
}

// folder is one that is still to be visited: where its first page lies was looked up when it was met.
type folder struct {
	id format.ID
	at location
}

// walk is what the visitors share.
type walk struct {
	c     *Closure
	work  *todo.Stack[folder]
	seen  numset.Set // folders and lists of chunks, by their numbers
	trees atomic.Uint64

	mu     sync.Mutex
	lost   map[format.ID]struct{} // those that were seen and are in no pack, so that they have no number
	strays int                    // places in packs that no segment names
	stray  format.ID              // the first of these packs
}

// first reports whether a folder or list is met for the first time.
func (w *walk) first(id format.ID, at *location) bool {
	if !at.lost() {
		return w.seen.Add(at.number())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, met := w.lost[id]
	w.lost[id] = struct{}{}
	return !met
}

func (w *walk) outside(at *location) error {
	in, err := at.pack()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.strays == 0 || in.ID.Compare(w.stray) < 0 {
		w.stray = in.ID
	}
	w.strays++
	return nil
}

// visitor is one goroutine that visits folders.
type visitor struct {
	*walk
	hasher *seal.Hasher
	clock  *report.Clock
	query  query
	root   folder       // what is visited: a folder, or a list of chunks
	dirs   []format.ID  // beneath it
	fresh  []folder     // of these
	chunks []tree.Chunk // to be looked up
	ids    []format.ID  // theirs
}

func (v *visitor) run(ctx context.Context) error {
	return v.work.Each(ctx, func(f folder) error {
		v.clock.Enter(report.Unpack)
		defer v.clock.Enter(report.Idle)
		return v.folder(ctx, &f)
	})
}

// folders takes up those folders that were not met before.
func (v *visitor) folders(ids []format.ID) error {
	if len(ids) == 0 {
		return nil
	}
	places, err := v.c.Blobs.locate(&v.query, ids)
	if err != nil {
		return err
	}
	v.fresh = v.fresh[:0]
	for i, id := range ids {
		if v.first(id, &places[i]) {
			v.fresh = append(v.fresh, folder{id, places[i]})
		}
	}
	v.trees.Add(uint64(len(v.fresh)))
	v.c.Book.Expect(uint64(len(v.fresh)), 0)
	v.work.Push(v.fresh...)
	return nil
}

// load reads a page; a loss is recorded. Errors are errLost or end the check.
func (v *visitor) load(ctx context.Context, id format.ID) ([]byte, error) {
	at := v.root.at
	if id != v.root.id {
		var err error
		if at, err = v.c.Blobs.one(&v.query, id); err != nil {
			return nil, err
		}
	}
	if at.lost() {
		v.c.Book.LoseBlob(finding.Tree, id, errNowhere)
		return nil, errLost
	}
	in, err := at.pack()
	if err != nil {
		return nil, err
	}
	if at.stray() {
		if err := v.outside(&at); err != nil {
			return nil, err
		}
	}
	if v.c.Book.Why(id, &finding.Place{Pack: in.ID, Offset: at.loc.Offset, Sealed: at.loc.Sealed}) != nil {
		return nil, errLost
	}
	p, err := v.c.Blobs.load(ctx, v.hasher, id, in, &at)
	var frame *frameError
	switch {
	case err == nil:
		return p, nil
	case finding.Fatal(ctx, err):
		return nil, err
	case errors.As(err, &frame):
		v.c.Book.LoseFrame(in.ID, at.loc.Offset, err)
	default:
		v.c.Book.LoseBlobOf(in.ID, id, err)
	}
	return nil, errLost
}

// folder visits one folder. The folders beneath it wait until all of its pages are read; what a damaged page held above
// the damage is followed too.
func (v *visitor) folder(ctx context.Context, f *folder) error {
	v.root, v.dirs = *f, v.dirs[:0]
	if err := v.pages(ctx, f.id); err != nil {
		return err
	}
	return v.folders(v.dirs)
}

// pages looks at what is in a folder. If something is wrong with it, its pages are tried one by one, so that what lies
// behind the damage is looked at as well.
func (v *visitor) pages(ctx context.Context, id format.ID) error {
	err := tree.Walk(ctx, v.load, id, func(n *tree.Node) error { return v.node(ctx, n) })
	switch {
	case err == nil:
		v.c.Book.Whole()
		return nil
	case finding.Fatal(ctx, err) || !errors.Is(err, errLost) && !wrong(err):
		return err
	case wrong(err):
		v.c.Book.LoseBlob(finding.Tree, id, err)
	}
	return eachPage(ctx, v.load, id, func(_ format.ID, pg *tree.Page, err error) error {
		if err != nil {
			if finding.Fatal(ctx, err) || !errors.Is(err, errLost) && !wrong(err) {
				return err
			}
			return nil
		}
		for i := range pg.Nodes {
			if err := v.node(ctx, &pg.Nodes[i]); err != nil && !wrong(err) {
				return err
			}
		}
		return nil
	})
}

// wrong reports whether the error says that a blob does not mean what it should.
func wrong(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)
}

func (v *visitor) node(ctx context.Context, n *tree.Node) error {
	switch n.Type {
	case tree.Dir:
		v.dirs = append(v.dirs, n.Subtree)
		return nil
	case tree.File:
		return v.content(ctx, n)
	default:
		return nil
	}
}

func (v *visitor) content(ctx context.Context, n *tree.Node) error {
	if list := n.Content.List; !list.IsZero() {
		at, err := v.c.Blobs.one(&v.query, list)
		if err != nil {
			return err
		}
		if !v.first(list, &at) {
			return nil
		}
		sum := uint64(0)
		err = tree.WalkList(ctx, v.load, list, func(c tree.Chunk) error {
			sum += c.Len
			return v.chunk(c)
		})
		switch {
		case err == nil && sum != n.Size:
			return sizeError(n, sum)
		case wrong(err):
			v.c.Book.LoseBlob(finding.Tree, list, err)
			return v.restOfList(ctx, list)
		case errors.Is(err, errLost):
			return v.restOfList(ctx, list)
		}
		return err
	}
	size := uint64(len(n.Content.Inline))
	for _, c := range n.Content.Chunks {
		size += c.Len
		if err := v.chunk(c); err != nil {
			return err
		}
	}
	if size != 0 && size != n.Size {
		return sizeError(n, size)
	}
	return nil
}

func sizeError(n *tree.Node, content uint64) error {
	return fmt.Errorf("file %q: %w (%d of %d bytes): %w", n.Name, errInconsistent, content, n.Size, format.ErrCorrupt)
}

// restOfList looks at what is left of a list of chunks.
func (v *visitor) restOfList(ctx context.Context, id format.ID) error {
	return eachListPage(ctx, v.load, id, func(_ format.ID, pg *tree.ListPage, err error) error {
		if err != nil {
			if finding.Fatal(ctx, err) || !errors.Is(err, errLost) && !wrong(err) {
				return err
			}
			return nil
		}
		for _, c := range pg.Chunks {
			if err := v.chunk(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *visitor) chunk(c tree.Chunk) error {
	if c.IsHole() {
		return nil
	}
	if v.chunks = append(v.chunks, c); len(v.chunks) < chunkBatch {
		return nil
	}
	return v.lookUp()
}

// lookUp finds out whether the gathered chunks are in packs.
func (v *visitor) lookUp() error {
	slices.SortFunc(v.chunks, func(a, b tree.Chunk) int { return a.ID.Compare(b.ID) })
	v.chunks = slices.Compact(v.chunks)
	v.ids = v.ids[:0]
	for i := range v.chunks {
		v.ids = append(v.ids, v.chunks[i].ID)
	}
	places, err := v.c.Blobs.locate(&v.query, v.ids)
	if err != nil {
		return err
	}
	for i := range places {
		switch at := &places[i]; {
		case at.lost():
			v.c.Book.LoseBlob(finding.Blob, v.ids[i], errNowhere)
		case uint64(at.loc.Len) != v.chunks[i].Len:
			v.c.Book.LoseBlob(finding.Blob, v.ids[i], fmt.Errorf("the index says %d bytes, a file %d: %w", at.loc.Len,
				v.chunks[i].Len, format.ErrCorrupt))
		case at.stray():
			if err := v.outside(at); err != nil {
				return err
			}
		}
	}
	v.chunks = v.chunks[:0]
	return nil
}
