package target

import (
	"io"

	"golang.org/x/sys/unix"
)

// lockRange locks a byte range of an open file for itself alone and releases it; what is closed releases it too.
func lockRange(fd int) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	return repeat(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock) })
}
