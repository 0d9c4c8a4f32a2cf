package browse

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	// chunksAhead is how many chunks are loaded ahead of the writing, which hides the latency of a remote store.
	chunksAhead = 4
	zeros       = 64 << 10 // bytes of a hole written at a time
)

// eachChunk visits the chunks of a file, inline or in a list. Inline content has none. The size beyond the chunks is a
// hole.
func eachChunk(ctx context.Context, load tree.Load, n *tree.Node, visit func(tree.Chunk) error) error {
	end := uint64(len(n.Content.Inline))
	err := n.Content.Each(ctx, load, func(c tree.Chunk, off uint64) error {
		end = off + c.Len
		return visit(c)
	})
	if err != nil || end >= n.Size {
		return err
	}
	return visit(tree.Chunk{Len: n.Size - end})
}

// WriteContent writes the content of a file, holes as zeros. The error wraps ErrNoContent if the snapshot has none.
func WriteContent(ctx context.Context, load tree.Load, n *tree.Node, w io.Writer) error {
	if !hasContent(n) {
		return ErrNoContent
	}
	if len(n.Content.Inline) > 0 {
		_, err := w.Write(n.Content.Inline)
		return err
	}
	if len(n.Content.Chunks) == 1 && n.Content.Chunks[0].Len == n.Size {
		return writeChunk(ctx, load, n.Content.Chunks[0], w)
	}
	return writeChunks(ctx, load, n, w, true)
}

// hasContent reports whether the snapshot holds the content of a file.
func hasContent(n *tree.Node) bool { return n.Outcome != tree.Skipped && n.Outcome != tree.Unreadable }

func writeChunk(ctx context.Context, load tree.Load, c tree.Chunk, w io.Writer) error {
	if c.IsHole() {
		return writeHole(ctx, c.Len, w)
	}
	blob, err := tree.LoadChunk(ctx, load, c)
	if err != nil {
		return err
	}
	_, err = w.Write(blob)
	return err
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
	blob  chan []byte // nil for a hole
}

// writeChunks writes the chunks of a file in their order while the next ones are loaded. Holes become zeros; with
// sparse output their whole blocks are skipped.
func writeChunks(ctx context.Context, load tree.Load, n *tree.Node, w io.Writer, holes bool) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan pending, chunksAhead)
	g.Go(func() error {
		defer close(queue)
		return eachChunk(ctx, load, n, func(c tree.Chunk) error {
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
					blob, err := tree.LoadChunk(ctx, load, c)
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
		at := uint64(0)
		for p := range queue {
			zeros := p.chunk.Len
			if !holes {
				before, _, after := wholeHole(at, p.chunk.Len, n.Size)
				zeros = before + after
			}
			at += p.chunk.Len
			if p.blob == nil {
				if err := writeHole(ctx, zeros, w); err != nil {
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
