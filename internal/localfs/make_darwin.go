package localfs

import "golang.org/x/sys/unix"

func renameNew(fromfd int, old string, tofd int, new string) error {
	return unix.RenameatxNp(fromfd, old, tofd, new, unix.RENAME_EXCL)
}

// inheritsNothing is never certain: macOS itself adds attributes to new files.
func (d *Dir) inheritsNothing() bool { return false }
