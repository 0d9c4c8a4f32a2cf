package kit

import (
	"os"

	"golang.org/x/sys/unix"
)

// Forget evicts the clean pages of a file from the page cache.
func Forget(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
