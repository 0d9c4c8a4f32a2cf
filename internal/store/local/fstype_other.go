//go:build !linux

package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// keepsInodes reports whether the file system of an open file keeps inode numbers, across mounts too.
func keepsInodes(fd int) (bool, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return false, os.NewSyscallError("fstatfs", err)
	}
	return unix.ByteSliceToString(st.Fstypename[:]) == "apfs", nil
}

// mountID has no equivalent: each mount has its own device number.
func mountID(int) (uint64, error) { return 0, nil }
