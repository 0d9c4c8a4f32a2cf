package copy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// idsRead is how many bytes of noted IDs are read at once.
const idsRead = 64 << 10

// transfer copies the tree of one snapshot in a session.
type transfer struct {
	c       *copier
	s       *repo.Session
	step    *report.Step
	window  window
	file    *cachefile.Plain // the new IDs of the chunks that were read, in the order of the walk; nil: keys agree
	noted   *bufio.Writer    // to the file
	ids     *bufio.Reader    // of it, for the second walk
	hasher  *seal.Hasher
	content *tree.ContentBuilder
	depths  []*tree.Builder // one for each folder on the path
}

func (c *copier) transfer(s *repo.Session, step *report.Step) (*transfer, error) {
	t := &transfer{c: c, s: s, step: step, hasher: c.to.Keys().Hasher()}
	t.content = tree.NewContentBuilder(t.emit)
	t.window.open(t)
	if c.res.SameKey {
		return t, nil
	}
	file, err := c.to.Index().OpenTempFile(c.opt.Scratch)
	if err != nil {
		return nil, err
	}
	t.file, t.noted = file, bufio.NewWriterSize(io.NewOffsetWriter(file, 0), windowChunks*format.IDSize)
	t.ids = bufio.NewReaderSize(io.NewSectionReader(file, 0, 1<<62), idsRead)
	return t, nil
}

func (t *transfer) close() {
	if t.file != nil {
		_ = t.file.Close() // it has no name, so closing removes it
	}
}

// load reads a page of the source. Where keys agree it is stored unchanged.
func (t *transfer) load(ctx context.Context, id format.ID) ([]byte, error) {
	p, err := t.c.from.LoadBlob(ctx, id)
	if err != nil {
		return nil, fromSource(ctx, err)
	}
	if t.c.res.SameKey {
		return p, t.put(id, p)
	}
	return p, nil
}

// loadEarlier reads a page of the snapshot that was copied before.
func (t *transfer) loadEarlier(ctx context.Context, id format.ID) ([]byte, error) {
	return t.c.from.LoadBlob(ctx, id)
}

// loadCopy reads a page of the copy of that snapshot.
func (t *transfer) loadCopy(ctx context.Context, id format.ID) ([]byte, error) {
	if t.c.res.SameKey {
		return t.c.from.LoadBlob(ctx, id)
	}
	return t.c.to.LoadBlob(ctx, id)
}

// put stores a page unless the destination has it.
func (t *transfer) put(id format.ID, p []byte) error {
	_, err := t.s.Put(pack.Trees, id, p)
	return toDestination(err)
}

// emit stores a page that was written for the destination.
func (t *transfer) emit(p []byte) (format.ID, error) {
	id := t.hasher.ID(p)
	return id, t.put(id, p)
}

// tree copies a tree and returns its root page in the destination.
func (t *transfer) tree(ctx context.Context, root format.ID, earlier pair) (format.ID, error) {
	if root == earlier.from {
		return earlier.to, nil
	}
	if err := t.gather(ctx, root, earlier); err != nil {
		return format.ID{}, fromSource(ctx, err)
	}
	if err := t.window.load(ctx); err != nil {
		return format.ID{}, err
	}
	if err := toDestination(t.s.Writer(pack.Data).Flush()); err != nil {
		return format.ID{}, err
	}
	if !t.c.res.SameKey {
		var err error
		if root, err = t.rewrite(ctx, root, earlier, 0); err != nil {
			return format.ID{}, fromSource(ctx, err)
		}
	}
	return root, toDestination(t.s.Writer(pack.Trees).Flush())
}

// gather walks a folder and copies the chunks without a known copy.
func (t *transfer) gather(ctx context.Context, id format.ID, earlier pair) error {
	return t.each(ctx, id, earlier, func(n *tree.Node, e earlierNode) error {
		switch {
		case n.Type == tree.Dir && !e.same(n):
			return t.gather(ctx, n.Subtree, e.below())
		case n.Type != tree.File:
			return nil
		}
		t.step.Did(1, n.Size)
		if e.same(n) {
			return nil
		}
		return t.eachChunk(ctx, n, e, func(c tree.Chunk, known format.ID) error {
			if c.IsHole() || !known.IsZero() {
				return nil
			}
			return t.window.want(ctx, c)
		})
	})
}

// rewrite writes a folder with the IDs of the destination and returns its first page.
func (t *transfer) rewrite(ctx context.Context, id format.ID, earlier pair, depth int) (format.ID, error) {
	if depth == len(t.depths) {
		t.depths = append(t.depths, tree.NewBuilder(t.emit))
	}
	b := t.depths[depth]
	b.Reset()
	err := t.each(ctx, id, earlier, func(n *tree.Node, e earlierNode) error {
		made := *n
		var err error
		switch {
		case n.Type == tree.Dir && e.same(n):
			made.Subtree = e.to.Subtree
		case n.Type == tree.Dir:
			made.Subtree, err = t.rewrite(ctx, n.Subtree, e.below(), depth+1)
		case n.Type == tree.File && e.same(n):
			made.Content = e.to.Content
		case n.Type == tree.File:
			made.Content, err = t.rewriteContent(ctx, n, e)
		}
		if err != nil {
			return err
		}
		if err := b.Add(&made); err != nil {
			return fmt.Errorf("write tree: %w", err)
		}
		return nil
	})
	if err != nil {
		return format.ID{}, err
	}
	root, err := b.Finish()
	if err != nil {
		return format.ID{}, fmt.Errorf("write tree: %w", err)
	}
	return root, nil
}

func (t *transfer) rewriteContent(ctx context.Context, n *tree.Node, e earlierNode) (tree.Content, error) {
	if len(n.Content.Inline) > 0 {
		return n.Content, nil
	}
	t.content.Reset()
	err := t.eachChunk(ctx, n, e, func(c tree.Chunk, known format.ID) (err error) {
		switch {
		case c.IsHole():
		case !known.IsZero():
			c.ID = known
		default:
			if c.ID, err = t.next(); err != nil {
				return err
			}
		}
		return t.content.Add(c)
	})
	if err != nil {
		return tree.Content{}, err
	}
	made, err := t.content.Finish()
	if err != nil {
		return tree.Content{}, fmt.Errorf("write list of chunks: %w", err)
	}
	return made, nil
}

// note notes the new IDs of chunks, in the order of the walk.
func (t *transfer) note(ids []format.ID) error {
	for i := range ids {
		_, _ = t.noted.Write(ids[i][:]) // Flush returns the first error
	}
	if err := t.noted.Flush(); err != nil {
		return fmt.Errorf("note the new IDs of chunks: %w", err)
	}
	return nil
}

// next returns the next of the noted IDs.
func (t *transfer) next() (id format.ID, err error) {
	switch _, err = io.ReadFull(t.ids, id[:]); {
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the second walk met more chunks than the first: %w", format.ErrCorrupt)
	case err != nil:
		err = fmt.Errorf("read the new IDs of chunks: %w", err)
	}
	return id, err
}
