package compare

import (
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Same reports whether e, inode number aside, is what node n describes, which a backup that began at start has stored.
// Contents, attributes and ACLs need no comparison: a change of any of them sets ctime. With ignoreCtime, mtime
// decides.
func Same(e *scan.Entry, n *tree.Node, start tree.Time, ignoreCtime bool) bool {
	if e.Type != n.Type || uint32(e.Mode) != n.Mode || e.UID != n.UID || e.GID != n.GID || e.ModTime() != n.ModTime {
		return false
	}
	if n.Outcome > tree.Retried || FS(e) != n.FS {
		return false
	}
	if e.Type == tree.Dir && e.Mount() != n.Mount || e.Type != tree.Dir && uint64(e.Links) != n.Links {
		return false
	}
	if e.Type == tree.File && e.Size != n.Size {
		return false
	}
	if ignoreCtime {
		return scan.Safe(e.ModTime(), start)
	}
	return e.Changed() == n.Changed && scan.Safe(e.Changed(), start)
}

// described reports whether e looks like the file that node n describes. It is read all the same if it was changed too
// late before the backup that stored n, or if n demands that; what it restores to the repository is a repair then.
func described(e *scan.Entry, n *tree.Node) bool {
	return e.Type == tree.File && n.Type == tree.File && e.Size == n.Size && e.ModTime() == n.ModTime &&
		e.Changed() == n.Changed
}

// FS returns the number of the file system to compare and to store: zero for that of the directory, and where an object
// has no other names.
func FS(e *scan.Entry) uint64 {
	if e.Links > 1 && e.Type != tree.Dir {
		return uint64(e.FS)
	}
	return 0
}

// Inode returns the inode number to compare and to store: zero where the file system assigns new ones at every mount,
// except to mark the names of one object.
func Inode(e *scan.Entry, d *scan.Directory) uint64 {
	if d.FS.StableInodes || e.Links > 1 && e.Type != tree.Dir {
		return e.Ino
	}
	return 0
}
