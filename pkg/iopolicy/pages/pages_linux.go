package pages

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Push sends n bytes from off of the open file fd, if they were written and not sent yet, to the device; n is 0 for all
// to the end. With wait it returns when they are there, although nothing says that they survive a power failure: that
// takes a flush. Without, it returns when they are on their way. Where the file system cannot, it does nothing.
//
// An error (no space, a broken device) is that of the range; later flushes do not repeat it.
func Push(fd int, off, n int64, wait bool) error {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	err := unix.SyncFileRange(fd, off, n, flags)
	for err == unix.EINTR {
		err = unix.SyncFileRange(fd, off, n, flags)
	}
	for _, missing := range []error{unix.ENOSYS, unix.EPERM, unix.EINVAL, unix.ESPIPE, unix.EOPNOTSUPP} {
		if errors.Is(err, missing) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("write out: %w", err)
	}
	return nil
}

// ReadAhead says whether the system may read more of the open file fd than it is asked for, which is how files are
// opened. It is a hint; where it is not taken, reads are larger.
func ReadAhead(fd int, on bool) {
	advice := unix.FADV_RANDOM
	if on {
		advice = unix.FADV_NORMAL
	}
	for unix.Fadvise(fd, 0, 0, advice) == unix.EINTR {
	}
}
