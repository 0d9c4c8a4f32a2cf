package localfs

import "github.com/tidemark-backup/tidemark/pkg/format/tree"

// mayOpen reports whether opening an object by its name for its attributes has no side effect on macOS. Opening a
// device has one, a dataless object is fetched, a fifo wakes its writer, and a socket cannot be opened.
//
//nolint:unused // on Linux, where its test runs
func mayOpen(st *Stat) bool {
	switch st.Type {
	case tree.File, tree.Dir, tree.Symlink:
		return st.Attr&AttrDataless == 0
	}
	return false
}
