package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// walk goes through a tree as simply as can be, and returns how many objects there are: one directory after the other is
// opened and listed, and each of its entries looked at once, relative to it. It is what others are compared with, so
// nothing in it may be slower than it has to be: it takes no memory for an entry.
func walk(root string) (objects int64, err error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", root, err)
	}
	w := &walker{}
	err = w.dir(fd, 0)
	return w.count, err
}

type walker struct {
	count int64
	bufs  [][]byte // one for each level
}

// dir walks the directory that is open, and closes it.
func (w *walker) dir(fd, level int) error {
	defer unix.Close(fd)
	if level == len(w.bufs) {
		w.bufs = append(w.bufs, make([]byte, 32<<10))
	}
	for {
		n, err := unix.ReadDirent(fd, w.bufs[level])
		if err != nil {
			return fmt.Errorf("list directory: %w", err)
		}
		if n == 0 {
			return nil
		}
		if err := w.entries(fd, level, w.bufs[level][:n]); err != nil {
			return err
		}
	}
}

// below walks a directory of the one that is open.
func (w *walker) below(fd int, name string, level int) error {
	sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	return w.dir(sub, level+1)
}
