package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the content and the size of f durable; its times need not be.
func syncData(f *os.File) error {
	return control(f, func(fd int) error { return retryEINTR(func() error { return unix.Fdatasync(fd) }) }, "fdatasync")
}

// renameNew renames a file unless the name is taken.
func renameNew(fd int, temp, path string) error {
	return unix.Renameat2(fd, temp, fd, path, unix.RENAME_NOREPLACE)
}

// dropCache drops the page cache of a file that was written and flushed, so that a large backup does not evict the
// pages of other programs. It is a hint: errors are ignored.
func dropCache(f *os.File) {
	_ = control(f, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }, "fadvise")
}

func control(f *os.File, call func(fd int) error, what string) error {
	return os.NewSyscallError(what, withFD(f, call))
}

// mostlyCached reports whether most of a range is in the page cache, which means that another program uses it. It is
// false before Linux 6.5, which has no such call.
func mostlyCached(f *os.File, off int64, n int) bool {
	var st unix.Cachestat_t
	at := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	err := control(f, func(fd int) error { return unix.Cachestat(uint(fd), &at, &st, 0) }, "cachestat")
	return err == nil && st.Cache*uint64(os.Getpagesize()) > uint64(n)/2
}

// dropRange drops the page cache of a range that was read. It is a hint.
func dropRange(f *os.File, off int64, n int) {
	inside := off % int64(os.Getpagesize()) // includes the page in which the last range ended
	_ = control(f, func(fd int) error {
		return unix.Fadvise(fd, off-inside, int64(n)+inside, unix.FADV_DONTNEED)
	}, "fadvise")
}
