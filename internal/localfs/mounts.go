package localfs

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Mount is a mounted file system.
type Mount struct {
	Path     string // of the mount point
	Type     string
	Source   string // what is mounted: "/dev/sda1", "//nas/share"
	Options  string // of the file system, with commas between; on Linux only
	ReadOnly bool
	Local    bool   // a file system of this machine that holds data to be backed up
	id       string // number of the mount
	device   string // equal for all mounts of one file system
	root     string // directory of the file system that is mounted
}

// classify derives Local from the type.
func (m *Mount) classify() {
	info := FSInfo{Type: m.Type}
	info.classify()
	m.Local = !info.Remote && !info.Pseudo
	switch m.Type {
	case "tmpfs", "ramfs", "squashfs", "iso9660", "udf":
		m.Local = false
	case "overlay": // of a container: a view of directories that are backed up themselves
		m.Local = m.Path == "/"
	case "fuseblk":
	default:
		m.Local = m.Local && m.Type != "fuse" && !strings.HasPrefix(m.Type, "fuse.")
	}
}

// distinct removes mounts that a later one hides, and marks bind mounts as not local: those of a directory that another
// mount of the file system contains. It sorts by path.
func distinct(all []Mount) []Mount {
	visible := map[string]Mount{}
	for _, m := range all {
		visible[m.Path] = m
	}
	var kept []Mount
	for _, m := range visible {
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b Mount) int {
		return cmp.Or(cmp.Compare(len(a.root), len(b.root)), cmp.Compare(a.Path, b.Path))
	})
	for i := range kept {
		within := func(other Mount) bool {
			return other.device == kept[i].device && (other.root == kept[i].root || beneath(kept[i].root, other.root))
		}
		if kept[i].device != "" && kept[i].Type != "btrfs" && slices.ContainsFunc(kept[:i], within) {
			kept[i].Local = false
		}
	}
	slices.SortFunc(kept, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) })
	return kept
}

// MountOf returns the mount that a clean path lies on; the zero value if it is not known.
func MountOf(path string, mounts []Mount) (best Mount) {
	for _, m := range mounts {
		if (path == m.Path || beneath(path, m.Path)) && len(m.Path) > len(best.Path) {
			best = m
		}
	}
	return best
}

// beneath reports whether an absolute path lies below another.
func beneath(at, above string) bool {
	return at != above && strings.HasPrefix(at, path.Clean(above+"/")) && (above == "/" || at[len(above)] == '/')
}
