package session

import (
	"os"
	"reflect"

	"golang.org/x/sys/unix"
)

// letGo gives the memory behind buf back to the system, as far as it is whole pages. The slice stays what it is: its bytes
// may become zero, and a page is there again when it is written. To do so costs some 3 ms for a pack of 16 MiB, and nobody
// could use the memory meanwhile: the buffers of packs that went up would stay as large as the largest of them while
// another one is being filled.
func letGo(buf []byte) {
	page := os.Getpagesize()
	skip := 0
	if off := int(reflect.ValueOf(buf).Pointer() % uintptr(page)); off > 0 {
		skip = page - off
	}
	if n := (len(buf) - skip) / page * page; n > 0 {
		_ = unix.Madvise(buf[skip:skip+n], unix.MADV_DONTNEED) // else it stays
	}
}
