package localfs

import "golang.org/x/sys/unix"

// createAt makes and opens a file, which must not exist.
func createAt(dirfd int, name string, mode uint32) (int, error) {
	const newFile = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(dirfd, name, newFile, mode)
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func renameNew(fromfd int, old string, tofd int, new string) error {
	return unix.RenameatxNp(fromfd, old, tofd, new, unix.RENAME_EXCL)
}

// inheritsNothing is never certain: macOS itself adds attributes to new files.
func (d *Dir) inheritsNothing() bool { return false }
