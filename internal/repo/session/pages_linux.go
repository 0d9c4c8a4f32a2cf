package session

import (
	"os"
	"reflect"

	"golang.org/x/sys/unix"
)

// newBuffer returns memory for size bytes of a pack, in large pages where the system has them to give: it is filled from
// the beginning to the end, every time anew after letGo, and a page of 2 MiB is got with one fault instead of 512.
func newBuffer(size int) []byte {
	buf := make([]byte, 0, size)
	if whole := pages(buf[:size]); len(whole) > 0 {
		_ = unix.Madvise(whole, unix.MADV_HUGEPAGE) // EINVAL: there are none
	}
	return buf
}

// letGo gives the memory behind buf back to the system, as far as it is whole pages. The slice stays what it is: its bytes
// may become zero, and a page is there again when it is written. Nobody could use the memory meanwhile: the buffers of packs
// that went up would stay as large as the largest of them while another one is being filled. To fill a pack of 16 MiB anew
// takes some 4 000 faults in small pages, and hardly a dozen in large ones.
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
