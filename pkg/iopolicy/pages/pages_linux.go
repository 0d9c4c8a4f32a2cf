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

// Drop evicts n bytes from off of the open file fd from the page cache, but for pages that are not on the device yet; n
// is 0 for all to the end. It begins at the page of off, since the system evicts whole pages only. It is a hint.
func Drop(fd int, off, n int64) {
	inside := off % int64(unix.Getpagesize())
	if n > 0 {
		n += inside
	}
	for unix.Fadvise(fd, off-inside, n, unix.FADV_DONTNEED) == unix.EINTR {
	}
}

// Cached counts the pages of a range of the open file fd that are in the page cache, and those of them that are not on
// the device yet. An error means that the system does not say: before Linux 6.5 (ENOSYS), without a page cache, and for
// files of other users.
func Cached(fd int, off, n int64) (held, dirty uint64, err error) {
	var st unix.Cachestat_t
	at := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	err = unix.Cachestat(uint(fd), &at, &st, 0)
	for err == unix.EINTR {
		err = unix.Cachestat(uint(fd), &at, &st, 0)
	}
	return st.Cache, st.Dirty + st.Writeback, err
}
