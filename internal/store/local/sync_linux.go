package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the content and the size of f durable; its times need not be.
func syncData(f *os.File) error {
	return control(f, func(fd int) error { return again(func() error { return unix.Fdatasync(fd) }) }, "fdatasync")
}

// dropCache gives back the page cache that a file just written and flushed takes, so that a backup of a terabyte does
// not push out what the people at this machine work with. Only a hint: errors mean nothing.
func dropCache(f *os.File) {
	_ = control(f, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }, "fadvise")
}

func control(f *os.File, call func(fd int) error, what string) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := raw.Control(func(fd uintptr) { callErr = call(int(fd)) }); err != nil {
		return err
	}
	return os.NewSyscallError(what, callErr)
}

// push has a range that was written go to the device now; with wait, it is there when push returns. What is wrong with
// the range is told by the error, and by no later flush any more.
func push(f *os.File, off, n int64, wait bool) error {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	err := control(f, func(fd int) error {
		return again(func() error { return unix.SyncFileRange(fd, off, n, flags) })
	}, "sync_file_range")
	for _, missing := range []unix.Errno{unix.ENOSYS, unix.EINVAL, unix.ESPIPE, unix.EOPNOTSUPP} {
		if errors.Is(err, missing) {
			return nil // not of this file system
		}
	}
	return err
}

// readAhead says whether the system may read more of a file than it is asked for. Only a hint.
func readAhead(f *os.File, on bool) {
	advice := unix.FADV_RANDOM
	if on {
		advice = unix.FADV_NORMAL
	}
	_ = control(f, func(fd int) error { return unix.Fadvise(fd, 0, 0, advice) }, "fadvise")
}

// mostlyCached reports whether most of a range is in memory: then somebody has use for it there. What the system reads
// ahead of us is less. False where the kernel does not tell, which is before 6.5: nobody but this program reads packs.
func mostlyCached(f *os.File, off int64, n int) bool {
	var st unix.Cachestat_t
	at := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	err := control(f, func(fd int) error { return unix.Cachestat(uint(fd), &at, &st, 0) }, "cachestat")
	return err == nil && st.Cache*uint64(os.Getpagesize()) > uint64(n)/2
}

// dropRange gives back the page cache that a range takes which was read. Only a hint.
func dropRange(f *os.File, off int64, n int) {
	inside := off % int64(os.Getpagesize()) // the page that the last range ended in goes too
	_ = control(f, func(fd int) error {
		return unix.Fadvise(fd, off-inside, int64(n)+inside, unix.FADV_DONTNEED)
	}, "fadvise")
}
