package local

import (
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
	return os.NewSyscallError(what, withFD(f, call))
}

// mostlyCached reports whether most of a range is in memory: then somebody has use for it there. False where the kernel
// does not tell, which is before 6.5: nobody but this program reads packs.
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
