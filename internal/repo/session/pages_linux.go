package session

import (
	"os"
	"reflect"

	"golang.org/x/sys/unix"
)

// newBuffer returns memory for size bytes of a pack, in large pages where available. The buffer is refilled from
// beginning to end after each letGo, and a page of 2 MiB takes one page fault instead of 512.
func newBuffer(size int) []byte {
	buf := make([]byte, 0, size)
	if whole := pages(buf[:size]); len(whole) > 0 {
		_ = unix.Madvise(whole, unix.MADV_HUGEPAGE) // EINVAL: there are none
	}
	return buf
}

// letGo returns the whole pages of buf to the system. The slice stays valid: its bytes may become zero, and a page is
// allocated again on the next write. Otherwise each buffer of an uploaded pack would keep the size of its largest pack
// while another one is being filled. Refilling a pack of 16 MiB takes some 4 000 faults with small pages, and about a
// dozen with large ones.
func letGo(buf []byte) {
	if whole := pages(buf); len(whole) > 0 {
		_ = unix.Madvise(whole, unix.MADV_DONTNEED) // else it stays
	}
}

// pages returns the part of buf that is whole pages.
func pages(buf []byte) []byte {
	page := os.Getpagesize()
	skip := 0
	if off := int(reflect.ValueOf(buf).Pointer() % uintptr(page)); off > 0 {
		skip = page - off
	}
	if len(buf) < skip+page {
		return nil
	}
	return buf[skip : skip+(len(buf)-skip)/page*page]
}
