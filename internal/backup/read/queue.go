package read

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	// PieceSize is the size of a piece. A frame is about a mebibyte, so is a piece.
	PieceSize = 1 << 20
	// SmallFile is the largest file that travels in a portion with others. Larger ones are read piece by piece.
	SmallFile = 256 << 10
	// minBounded is the least that is read at once of a large file while a gate limits the size of reads.
	minBounded = 64 << 10
	// portionFiles bounds a portion of tiny files, so that a directory of a million of them is spread over the readers.
	portionFiles = 512
)

// Portion is the unit of work of a reader: neighbouring entries of one directory, or one large file.
type Portion struct {
	dir     *Dir
	handle  *localfs.Dir // retained
	entries []uint32
	bytes   uint64
	large   bool
}

// Release closes the directory of a portion that is not read.
func (b *Portion) Release() { b.handle.Release() }

// Queue queues some entries of d, no directories: small files and everything without content in portions,
// in the order of their inodes, large files alone. It sorts entries.
func (s *Stage) Queue(ctx context.Context, d *Dir, entries []uint32) error {
	slices.SortFunc(entries, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(d.Entries[a].Ino, d.Entries[b].Ino), cmp.Compare(a, b))
	})
	b := &Portion{dir: d}
	for _, i := range entries {
		e := &d.Entries[i]
		handle := d.Dir(e.Name)
		// The device of a file on another file system than its directory is not known, so such a file is read for itself.
		if e.Type == tree.File && e.Links > 1 && !e.Mount() && s.links.join(linkKeyOf(d.Dev, e), waiter{d, i}, e.Links) {
			continue // another name of it is read, or was
		}
		generated := e.Type == tree.File && d.FS.Pseudo // the kernel makes it when it is read: its size means nothing
		large := e.Type == tree.File && !generated && (e.Size > SmallFile || e.Sparse())
		alone := large || generated
		if b.handle != handle || alone || b.bytes+e.Size > PieceSize || len(b.entries) == portionFiles {
			if err := s.queue(ctx, b); err != nil {
				return err
			}
			b = &Portion{dir: d, handle: handle}
		}
		b.entries = append(b.entries, i)
		b.large = large
		if e.Type == tree.File {
			b.bytes += e.Size
		}
		if alone {
			if err := s.queue(ctx, b); err != nil {
				return err
			}
			b = &Portion{dir: d, handle: handle}
		}
	}
	return s.queue(ctx, b)
}

// queue queues b, which from then on is a part of its directory.
func (s *Stage) queue(ctx context.Context, b *Portion) error {
	if len(b.entries) == 0 {
		return nil
	}
	b.dir.Parts.Begin()
	b.handle.Retain()
	if err := s.Flow.Queue(ctx, b); err != nil {
		b.handle.Release()
		return err
	}
	return nil
}
