package restore

import (
	"context"
	"errors"
	"io"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// compareContent compares an open file with a node, chunk by chunk. The error wraps errContentDiffers if they differ.
func compareContent(ctx context.Context, load tree.Load, f *localfs.File, n *tree.Node, h *seal.Hasher) error {
	if f.Opened().Size != n.Size {
		return errContentDiffers
	}
	if len(n.Content.Inline) > 0 {
		p := make([]byte, len(n.Content.Inline))
		if _, err := f.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if string(p) != string(n.Content.Inline) {
			return errContentDiffers
		}
		return compareZeros(f, uint64(len(p)), n.Size-uint64(len(p)))
	}
	var buf []byte
	end := uint64(0)
	err := n.Content.Each(ctx, load, func(c tree.Chunk, off uint64) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		end = off + c.Len
		if c.IsHole() {
			return compareZeros(f, off, c.Len)
		}
		if uint64(cap(buf)) < c.Len {
			buf = make([]byte, c.Len)
		}
		p := buf[:c.Len]
		if _, err := f.ReadAt(p, int64(off)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if h.ID(p) != c.ID {
			return errContentDiffers
		}
		return nil
	})
	if err != nil || end >= n.Size {
		return err
	}
	return compareZeros(f, end, n.Size-end) // a node may omit a final hole
}

// compareZeros requires that a range holds only zeros; holes are not read.
func compareZeros(f *localfs.File, off, n uint64) error {
	if n == 0 {
		return nil
	}
	buf := make([]byte, 64<<10)
	return f.Extents(off+n, func(at, length uint64, hole bool) error {
		if hole || at+length <= off {
			return nil
		}
		for from := max(at, off); from < at+length; from += uint64(len(buf)) {
			p := buf[:min(uint64(len(buf)), at+length-from)]
			if _, err := f.ReadAt(p, int64(from)); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			for _, b := range p {
				if b != 0 {
					return errContentDiffers
				}
			}
		}
		return nil
	})
}
