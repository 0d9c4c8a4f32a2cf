package cachefile

import "golang.org/x/sys/unix"

// dropPages removes a part of a read-only file mapping from the page tables; the pages stay in the page cache.
func dropPages(start, length uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_DONTNEED)
}
