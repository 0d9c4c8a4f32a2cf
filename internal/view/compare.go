package view

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ErrDiffers reports that a file does not have the content of a node.
var ErrDiffers = errors.New("its content differs from the snapshot")

// Opened is an open file. *localfs.File is one.
type Opened interface {
	ReadAt(p []byte, off int64) (int, error)
	// Extents visits data and holes between two offsets.
	Extents(from, to uint64, visit func(off, n uint64, hole bool) error) error
}

// Compare compares the content of an open file with that of a node, chunk by chunk. Holes are not read. The error
// wraps ErrDiffers if they differ.
func Compare(ctx context.Context, load tree.Load, h *seal.Hasher, n *tree.Node, f Opened) error {
	var buf []byte
	read := func(off, length uint64) ([]byte, error) {
		if uint64(cap(buf)) < length {
			buf = make([]byte, length)
		}
		k, err := f.ReadAt(buf[:length], int64(off))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return buf[:k], context.Cause(ctx)
	}
	end := uint64(len(n.Content.Inline))
	if p, err := read(0, end); err != nil || !bytes.Equal(p, n.Content.Inline) {
		return differs(err)
	}
	err := n.Content.Each(ctx, load, func(c tree.Chunk, off uint64) error {
		end = off + c.Len
		if c.IsHole() {
			return requireZeros(f, off, end, read)
		}
		p, err := read(off, c.Len)
		if err != nil || h.ID(p) != c.ID {
			return differs(err)
		}
		return nil
	})
	if err != nil || end >= n.Size {
		return err
	}
	return requireZeros(f, end, n.Size, read) // a node may omit a final hole
}

// differs returns why a comparison failed.
func differs(err error) error {
	if err != nil {
		return err
	}
	return ErrDiffers
}

// requireZeros returns an error unless a range holds only zeros.
func requireZeros(f Opened, from, to uint64, read func(off, length uint64) ([]byte, error)) error {
	var zeros []byte
	return f.Extents(from, to, func(off, n uint64, hole bool) error {
		if zeros == nil && !hole {
			zeros = make([]byte, 64<<10)
		}
		for end := off + n; !hole && off < end; off += uint64(len(zeros)) {
			want := min(uint64(len(zeros)), end-off)
			if p, err := read(off, want); err != nil || !bytes.Equal(p, zeros[:want]) {
				return differs(err)
			}
		}
		return nil
	})
}
