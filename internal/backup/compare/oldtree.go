package compare

import (
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// oldTree is the tree that a directory had in the snapshot compared with. A root that is not known is found on first
// use.
type oldTree struct {
	find  func() (format.ID, tree.Time, error)
	root  format.ID   // zero: the directory was not there
	start tree.Time   // of the backup that wrote it
	lost  atomic.Bool // it cannot be read

	once sync.Once
	err  error
}

// get returns the root and the start. It is safe for concurrent use.
func (t *oldTree) get() (format.ID, tree.Time, error) {
	t.once.Do(func() {
		if t.find != nil {
			t.root, t.start, t.err = t.find()
			t.find = nil
		}
	})
	return t.root, t.start, t.err
}
