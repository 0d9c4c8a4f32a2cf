// Package kernelfile reads the small files in which a kernel tells of itself, in /proc and /sys. os.ReadFile asks such a
// file for its size, which it does not know, and registers it with the runtime's poller, which has no use for it: ten
// calls of the system instead of four.
//
// It refuses to know what the files say.
package kernelfile

import (
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// room is how much is read at first, in bytes: a page, which is the most that a file of sysfs holds.
const room = 4 << 10

// Read returns the content of a file. What is wrong is told by an fs.PathError, as by os.ReadFile.
func Read(path string) ([]byte, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, room)
	for {
		n, err := again(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
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

// again repeats a call that a signal interrupted.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
