package pages

import "golang.org/x/sys/unix"

// Push does nothing: macOS has no call that starts the write-back of a part of a file.
func Push(int, int64, int64, bool) error { return nil }

// ReadAhead says whether the system may read more of the open file fd than it is asked for, which is how files are
// opened. It is a hint; where it is not taken, reads are larger.
func ReadAhead(fd int, on bool) {
	arg := 0
	if on {
		arg = 1
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_RDAHEAD, arg)
}

// Drop does nothing: macOS has no call for a part of a file, nor for one that was written.
func Drop(int, int64, int64) {}

// Cached does not know: macOS says it of mapped files only.
func Cached(int, int64, int64) (held, dirty uint64, err error) { return 0, 0, unix.ENOTSUP }
