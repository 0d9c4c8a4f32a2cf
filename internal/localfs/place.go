package localfs

import (
	"cmp"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Arrange puts files, which lie on one file system, into the order in which their contents lie on its device, for
// ReadWhole. First come those of which no place is known, because they are empty, kept inside their inodes or not on the
// device yet; where the file system tells no places, that is all of them. Files of equal place keep their order.
//
// It costs a look at each of them, which is answered from memory where a file has few extents and was just opened.
func (b *Batch) Arrange(files []Whole) {
	if len(files) < 2 || !files[0].File.placed() {
		return
	}
	b.places.Most = MostLooks
	for left := files; len(left) > 0; {
		grant, err := left[0].File.door.begin(iopolicy.Metadata, 0)
		if err != nil {
			return // reading says so
		}
		n, told := b.places.Calls(grant, len(left)), true
		for i := range left[:n] {
			w := &left[i]
			w.place = 0
			if w.Size > 0 && told {
				w.place, told = w.File.place(w.Size)
			}
		}
		b.places.End(grant, n)
		if !told {
			return
		}
		left = left[n:]
	}
	slices.SortStableFunc(files, func(a, b Whole) int { return cmp.Compare(a.place, b.place) })
}
