package hashcache

import "golang.org/x/sys/unix"

// letGo removes a part of a read-only mapping of a file from the page tables; the pages stay in the page cache.
func letGo(start, length uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_DONTNEED)
}
