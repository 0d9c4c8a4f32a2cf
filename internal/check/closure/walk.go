package closure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/check/finding"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/todo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// chunkBatch is how many chunks of files are looked up together.
const chunkBatch = 16 << 10

// short is what the sets of IDs keep of one: half the memory, and still no two that agree.
type short [16]byte

func shorten(id format.ID) short { return short(id[:16]) }

// Walk makes sure that every blob that the snapshots need is in a pack that is there. Folders and lists of chunks are
// read; of file data only the places are looked up. Snapshots that cannot be read are passed over.
func (c *Closure) Walk(ctx context.Context, snapshots []repo.Listed) error {
	w := &walk{c: c, work: todo.New[format.ID](), seen: make(map[short]struct{})}
	for _, s := range slices.Backward(snapshots) {
		w.push(s.Snapshot.Tree)
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
	c.Book.Count(func(r *finding.Result) { r.Trees = uint64(w.trees) })
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

// walk is what the visitors share.
type walk struct {
	c    *Closure
	work *todo.Stack[format.ID] // folders still to be visited

	mu     sync.Mutex
	seen   map[short]struct{} // folders and lists of chunks
	trees  int
	strays int       // places in packs that no segment names
	stray  format.ID // the first of these packs
}

// push adds a folder unless it was met before.
func (w *walk) push(id format.ID) {
	if !w.first(id) {
		return
	}
	w.c.Book.Expect(1, 0)
	w.mu.Lock()
	w.trees++
	w.mu.Unlock()
	w.work.Push(id)
}

// first reports whether a folder or list is met for the first time.
func (w *walk) first(id format.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.seen[shorten(id)]; ok {
		return false
	}
	w.seen[shorten(id)] = struct{}{}
	return true
}

func (w *walk) outside(at *location) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.strays == 0 || at.pack.ID.Compare(w.stray) < 0 {
		w.stray = at.pack.ID
	}
	w.strays++
}

// visitor is one goroutine that visits folders.
type visitor struct {
	*walk
	hasher *seal.Hasher
	clock  *report.Clock
	chunks []tree.Chunk // to be looked up
}

func (v *visitor) run(ctx context.Context) error {
	return v.work.Each(ctx, func(id format.ID) error {
		v.clock.Enter(report.Unpack)
		defer v.clock.Enter(report.Idle)
		return v.folder(ctx, id)
	})
}

// load reads a page; a loss is recorded. Errors are errLost or end the check.
func (v *visitor) load(ctx context.Context, id format.ID) ([]byte, error) {
	at, err := v.c.Blobs.one(id)
	if err != nil {
		return nil, err
	}
	if at == nil {
		v.c.Book.LoseBlob(finding.Tree, id, errNowhere)
		return nil, errLost
	}
	if at.stray {
		v.outside(at)
	}
	if v.c.Book.Why(id, at.place()) != nil {
		return nil, errLost
	}
	p, err := v.c.Blobs.load(ctx, v.hasher, id, at)
	var frame *frameError
	switch {
	case err == nil:
		return p, nil
	case finding.Fatal(ctx, err):
		return nil, err
	case errors.As(err, &frame):
		v.c.Book.LoseFrame(at.pack.ID, at.loc.Offset, err)
	default:
		v.c.Book.LoseBlobOf(at.pack.ID, id, err)
	}
	return nil, errLost
}

// folder visits one folder. If something is wrong with it, its pages are tried one by one, so that what lies behind the
// damage is looked at as well.
func (v *visitor) folder(ctx context.Context, id format.ID) error {
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
		v.push(n.Subtree)
		return nil
	case tree.File:
		return v.content(ctx, n)
	default:
		return nil
	}
}

func (v *visitor) content(ctx context.Context, n *tree.Node) error {
	if list := n.Content.List; !list.IsZero() {
		if !v.first(list) {
			return nil
		}
		sum := uint64(0)
		err := tree.WalkList(ctx, v.load, list, func(c tree.Chunk) error {
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
	ids := make([]format.ID, len(v.chunks))
	for i := range ids {
		ids[i] = v.chunks[i].ID
	}
	places, err := v.c.Blobs.locate(ids)
	if err != nil {
		return err
	}
	for i, at := range places {
		switch {
		case at == nil:
			v.c.Book.LoseBlob(finding.Blob, ids[i], errNowhere)
		case uint64(at.loc.Len) != v.chunks[i].Len:
			v.c.Book.LoseBlob(finding.Blob, ids[i], fmt.Errorf("the index says %d bytes, a file %d: %w", at.loc.Len,
				v.chunks[i].Len, format.ErrCorrupt))
		case at.stray:
			v.outside(at)
		}
	}
	v.chunks = v.chunks[:0]
	return nil
}
