package browse

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	// chunksAhead is how many chunks are loaded before they are written: hides the delay of a remote store.
	chunksAhead = 4
	zeros       = 64 << 10 // bytes of a hole written at a time
)

// eachChunk visits the chunks of a file, wherever they are kept. Inline content has none; a file without any chunk that
// has a size is one hole.
func eachChunk(ctx context.Context, load tree.Load, n *tree.Node, visit func(tree.Chunk) error) error {
	c := &n.Content
	switch {
	case !c.List.IsZero():
		return tree.WalkList(ctx, load, c.List, visit)
	case len(c.Inline) > 0:
		return nil
	case len(c.Chunks) == 0 && n.Size > 0:
		return visit(tree.Chunk{Len: n.Size})
	}
	for _, chunk := range c.Chunks {
		if err := visit(chunk); err != nil {
			return err
		}
	}
	return nil
}

// writeContent writes the content of a file, holes as zeros. The error wraps ErrNoContent if the snapshot has none.
func writeContent(ctx context.Context, r Reader, n *tree.Node, w io.Writer) error {
	if !hasContent(n) {
		return ErrNoContent
	}
	if len(n.Content.Inline) > 0 {
		_, err := w.Write(n.Content.Inline)
		return err
	}
	if len(n.Content.Chunks) == 1 {
		return writeChunk(ctx, r, n.Content.Chunks[0], w)
	}
	return writeAhead(ctx, r, n, w)
}

// hasContent tells a file from one whose content could not be had.
func hasContent(n *tree.Node) bool { return n.Outcome != tree.Skipped && n.Outcome != tree.Unreadable }

func writeChunk(ctx context.Context, r Reader, c tree.Chunk, w io.Writer) error {
	if c.IsHole() {
		return writeHole(ctx, c.Len, w)
	}
	blob, err := loadChunk(ctx, r, c)
	if err != nil {
		return err
	}
	_, err = w.Write(blob)
	return err
}

func loadChunk(ctx context.Context, r Reader, c tree.Chunk) ([]byte, error) {
	blob, err := r.LoadBlob(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	if uint64(len(blob)) != c.Len {
		return nil, fmt.Errorf("blob %s has %d bytes, the file says %d: %w", c.ID.Short(), len(blob), c.Len,
			format.ErrCorrupt)
	}
	return blob, nil
}

func writeHole(ctx context.Context, length uint64, w io.Writer) error {
	buf := make([]byte, min(length, zeros))
	for length > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(length, uint64(len(buf)))
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		length -= n
	}
	return nil
}

// pending is a chunk that is being loaded.
type pending struct {
	chunk tree.Chunk
	blob  chan []byte // nil of a hole
}

// writeAhead writes the chunks of a file in their order while the next ones are on their way.
func writeAhead(ctx context.Context, r Reader, n *tree.Node, w io.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan pending, chunksAhead)
	g.Go(func() error {
		defer close(queue)
		return eachChunk(ctx, r.LoadBlob, n, func(c tree.Chunk) error {
			p := pending{chunk: c}
			if !c.IsHole() {
				p.blob = make(chan []byte, 1)
			}
			select {
			case queue <- p:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if p.blob != nil {
				g.Go(func() error {
					blob, err := loadChunk(ctx, r, c)
					if err == nil {
						p.blob <- blob
					}
					return err
				})
			}
			return nil
		})
	})
	g.Go(func() error {
		for p := range queue {
			if p.blob == nil {
				if err := writeHole(ctx, p.chunk.Len, w); err != nil {
					return err
				}
				continue
			}
			select {
			case blob := <-p.blob:
				if _, err := w.Write(blob); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	return g.Wait()
}
