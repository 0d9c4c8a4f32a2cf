//go:build !linux

package local

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// mountOf finds out on which file system a path lies; each mount has a device number of its own.
func mountOf(path string) (mount, error) { return mountAt(unix.AT_FDCWD, path) }

// mountAt is mountOf of a name in an open folder, or of the folder itself if that is "".
func mountAt(dir int, path string) (mount, error) {
	var st unix.Stat_t
	err := again(func() error {
		if path == "" {
			return unix.Fstat(dir, &st)
		}
		return unix.Fstatat(dir, path, &st, 0)
	})
	if err != nil {
		return mount{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return mount{dev: uint64(st.Dev)}, nil
}

// fileSystem names what is mounted, which on this system is all that outlasts the mount.
func fileSystem(path string) (string, error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return fmt.Sprintf("%s:%s", unix.ByteSliceToString(st.Fstypename[:]), unix.ByteSliceToString(st.Mntfromname[:])), nil
}
