// Package sysinfo reads facts about the machine: small files of /proc and /sys, and the processors that this process
// may use and has used.
package sysinfo

import (
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// firstRead is how much is read at first, in bytes: a page, the most that a file of sysfs holds.
const firstRead = 4 << 10

// ReadFile returns the content of a file of /proc or /sys in four system calls. os.ReadFile needs ten: it reads the
// size, which these files do not have, and registers the descriptor with the poller. Errors are fs.PathErrors.
func ReadFile(path string) ([]byte, error) {
	fd, err := retryEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, firstRead)
	for {
		n, err := retryEINTR(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return text, nil
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = slices.Grow(text, len(text))
		}
	}
}

// retryEINTR repeats a call while a signal interrupts it.
func retryEINTR(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
