package treecache

import "golang.org/x/sys/unix"

// blockUnit returns the bytes that the counts of statfs are in.
func blockUnit(fs *unix.Statfs_t) int64 { return int64(fs.Bsize) }
