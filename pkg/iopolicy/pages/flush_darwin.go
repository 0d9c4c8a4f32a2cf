package pages

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Flush makes the open file or folder fd durable as far as its file system can, and returns what it promises.
func Flush(fd int, folder bool) (Promise, error) {
	return flush(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
		return err
	}, func() error { return unix.Fsync(fd) }, folder)
}

// Sync is Flush of an os.File, whose own Sync fails on exFAT, FAT and macFUSE.
func Sync(f *os.File, folder bool) error {
	raw, err := f.SyscallConn()
	if err == nil {
		var flushErr error
		if err = raw.Control(func(fd uintptr) { _, flushErr = Flush(int(fd), folder) }); err == nil {
			err = flushErr
		}
	}
	if err != nil {
		return fmt.Errorf("flush %s: %w", f.Name(), err)
	}
	return nil
}
