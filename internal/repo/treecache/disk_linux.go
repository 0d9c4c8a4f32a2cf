package treecache

import "golang.org/x/sys/unix"

// blockUnit returns the bytes that the counts of statfs are in. File systems in user space may have two sizes.
func blockUnit(fs *unix.Statfs_t) int64 {
	if fs.Frsize > 0 {
		return fs.Frsize
	}
	return fs.Bsize
}
