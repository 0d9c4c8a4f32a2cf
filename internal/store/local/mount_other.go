//go:build !linux

package local

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// spotOf finds out on which file system a path lies, and what is there; each mount has a device number of its own.
func spotOf(path string) (spot, error) { return spotAt(unix.AT_FDCWD, path) }

// spotAt is spotOf of a name in an open folder, or of the folder itself if that is "".
func spotAt(dir int, path string) (spot, error) {
	var st unix.Stat_t
	err := again(func() error {
		if path == "" {
			return unix.Fstat(dir, &st)
		}
		return unix.Fstatat(dir, path, &st, 0)
	})
	if err != nil {
		return spot{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return spot{mount{dev: uint64(st.Dev)}, st.Ino}, nil
}

// fileSystem names what is mounted, which on this system is all that outlasts the mount. keeps tells
// whether its type is known to keep the numbers of files and folders, over unmounting too.
func fileSystem(path string) (name string, keeps bool, err error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return "", false, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	kind := unix.ByteSliceToString(st.Fstypename[:])
	return fmt.Sprintf("%s:%s", kind, unix.ByteSliceToString(st.Mntfromname[:])), kind == "apfs", nil
}
