package read

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Order is the order in which the small files of a directory are read. They are opened in the order of their inodes.
type Order uint8

// The orders.
const (
	ByMedium Order = iota // ByExtent on a rotational disk, ByInode elsewhere
	ByInode               // as they were opened
	ByExtent              // as their contents lie on the device, where the file system reports it
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

// byExtent reports whether the files of a directory are read in the order of their extents.
func (s *Stage) byExtent(dir *localfs.Dir) bool {
	switch s.Options.Order {
	case ByExtent:
		return true
	case ByMedium:
		return s.Rotational != nil && s.Rotational(dir.Pass())
	case ByInode:
	}
	return false
}

// residentFirst moves the files that the page cache holds to the front of some entries of a portion, and returns how
// many they are. Otherwise both parts keep their order. So the next stage has work while the other files wait for
// slots.
func (r *Reader) residentFirst(b *Portion, entries []uint32) int {
	n := 0
	r.absent = r.absent[:0]
	for _, i := range entries {
		e := &b.dir.Entries[i]
		if e.Type == tree.File && b.handle.Resident(e.Name, known(b.dir, e)) {
			entries[n] = i
			n++
		} else {
			r.absent = append(r.absent, i)
		}
	}
	copy(entries[n:], r.absent)
	return n
}
