package backup

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// Order says in which order the small files of a directory are read. They are opened in the order of their inodes.
type Order uint8

// The orders.
const (
	ByMedium Order = iota // ByExtent on a disk that turns, ByInode elsewhere
	ByInode               // as they were opened
	ByExtent              // as their contents lie on the device, where the file system tells
)

// ParseOrder returns the order of a word of --read-order.
func ParseOrder(word string) (Order, error) {
	for i, known := range []string{"auto", "inode", "extent"} {
		if word == known {
			return Order(i), nil
		}
	}
	return ByMedium, fmt.Errorf("read order %q: choose auto, inode or extent", word)
}

// byExtent reports whether the files of a directory are to be read in the order of their contents.
func (p *pipeline) byExtent(dir *localfs.Dir) bool {
	switch p.src.Reading.Order {
	case ByExtent:
		return true
	case ByMedium:
		return p.src.Turns != nil && p.src.Turns(dir.Pass())
	case ByInode:
	}
	return false
}

// files returns what reads the small files of a directory.
func (r *Reading) files() *localfs.Batch {
	b := localfs.NewBatch(!r.Singly)
	if r.Cached {
		b.KeepToCache()
	}
	return b
}
