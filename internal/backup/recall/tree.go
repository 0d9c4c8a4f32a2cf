package recall

import (
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Tree is the tree that a directory had in the snapshot compared with. Where Root is not known it is found when somebody asks.
type Tree struct {
	Find  func() (format.ID, tree.Time, error)
	Root  format.ID // zero: it was not there
	Start tree.Time // of the backup that wrote it

	once sync.Once
	err  error
}

// Get returns Root and Start. It is safe for concurrent use.
func (t *Tree) Get() (format.ID, tree.Time, error) {
	t.once.Do(func() {
		if t.Find != nil {
			t.Root, t.Start, t.err = t.Find()
			t.Find = nil
		}
	})
	return t.Root, t.Start, t.err
}
