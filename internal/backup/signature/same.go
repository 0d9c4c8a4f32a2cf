package signature

import (
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Same reports whether e, inode number aside, is still what n says, which a backup that began at start has stored. No look at
// contents, attributes or ACLs is needed: a change of any of them moves ctime. Where that is ignored, mtime must do.
func Same(e *scan.Entry, n *tree.Node, start tree.Time, ignoreCtime bool) bool {
	if e.Type != n.Type || uint32(e.Mode) != n.Mode || e.UID != n.UID || e.GID != n.GID || e.ModTime() != n.ModTime {
		return false
	}
	if n.Outcome > tree.Retried || e.Type != tree.Dir && uint64(e.Links) != n.Links || e.Mount != n.Mount {
		return false
	}
	if e.Type == tree.File && e.Size != n.Size {
		return false
	}
	if ignoreCtime {
		return Settled(e.ModTime(), start)
	}
	return e.Changed() == n.Changed && Settled(e.Changed(), start)
}
