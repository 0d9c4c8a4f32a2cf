package store

import (
	"fmt"
	"io/fs"
)

// CheckFence returns an error that wraps ErrName unless n is a name that can be fenced: that of a lease.
func (n Name) CheckFence() error {
	if n.Kind != Lease {
		return fmt.Errorf("%w: only a lease can be fenced, not %s", ErrName, n.Kind)
	}
	return n.Check()
}

// IsFence reports whether what has the name of a file of a kind is a fence, for stores with folders: there a fence is
// an empty folder. No file system renames a file over a folder or creates one over a file, and a file that a crash or a
// lost connection has left empty is no fence.
func IsFence(kind Kind, mode fs.FileMode) bool { return kind == Lease && mode.IsDir() }

// Describe returns what lies under a name, for stores with folders.
func Describe(name Name, info fs.FileInfo) Info {
	if IsFence(name.Kind, info.Mode()) {
		return Info{Name: name, Modified: info.ModTime(), Fence: true}
	}
	return Info{Name: name, Size: info.Size(), Modified: info.ModTime()}
}
