package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the content and the size of f durable; its times need not be.
func syncData(f *os.File) error {
	err := withFD(f, func(fd int) error { return retryEINTR(func() error { return unix.Fdatasync(fd) }) })
	return os.NewSyscallError("fdatasync", err)
}

// renameNew renames a file unless the name is taken.
func renameNew(fd int, temp, path string) error {
	return unix.Renameat2(fd, temp, fd, path, unix.RENAME_NOREPLACE)
}
