package cachefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropPages removes a part of a read-only file mapping from the page tables; the pages stay in the page cache.
func dropPages(start, length uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_DONTNEED)
}

// readCached fills p from off and reports whether cached pages sufficed. p is not empty.
func readCached(f *os.File, p []byte, off int64) bool {
	n, err := unix.Preadv2(int(f.Fd()), [][]byte{p}, off, unix.RWF_NOWAIT)
	return err == nil && n == len(p)
}
