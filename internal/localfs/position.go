package localfs

import (
	"cmp"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// SortByPosition sorts files of one file system by the position of their content on the device. Files without a known
// position come first: empty ones, those stored in their inode and those not yet on the device. Files of equal position
// keep their order. It makes one query per file, which is answered from memory for files that were just opened.
func (b *Batch) SortByPosition(files []BatchFile) {
	if len(files) < 2 || !files[0].File.hasPositions() {
		return
	}
	b.positions.Most = MaxStatBatch
	for left := files; len(left) > 0; {
		grant, err := left[0].File.ioctx.begin(iopolicy.Metadata, 0)
		if err != nil {
			return // reading returns the error
		}
		n, known := b.positions.Calls(grant, len(left)), true
		for i := range left[:n] {
			w := &left[i]
			w.position = 0
			if w.Size > 0 && known {
				w.position, known = w.File.position(w.Size)
			}
		}
		b.positions.End(grant, n)
		if !known {
			return
		}
		left = left[n:]
	}
	slices.SortStableFunc(files, func(a, b BatchFile) int { return cmp.Compare(a.position, b.position) })
}
