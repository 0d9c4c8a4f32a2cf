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
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := raw.Control(func(fd uintptr) { callErr = call(int(fd)) }); err != nil {
		return err
	}
	return os.NewSyscallError(what, callErr)
}
