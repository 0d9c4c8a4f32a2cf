package localfs

import "golang.org/x/sys/unix"

// createAt makes a file, which must not exist, and opens it.
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

// inheritsNothing is never known: the system itself gives attributes to files that a program makes.
func (d *Dir) inheritsNothing() bool { return false }
