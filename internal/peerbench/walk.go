package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// walk goes through a tree as simply as can be, and returns how many objects there are: one directory after the other is
// opened and listed, and each of its entries looked at once, relative to it. It is what others are compared with.
func walk(root string) (objects int64, err error) {
	dir, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", root, err)
	}
	w := &walker{}
	err = w.dir(dir, 0)
	return w.count, err
}

type walker struct {
	count int64
	bufs  [][]byte // one for each level
	names [][]string
}

// dir walks the directory that is open, and closes it.
func (w *walker) dir(fd, level int) error {
	defer unix.Close(fd)
	if level == len(w.bufs) {
		w.bufs, w.names = append(w.bufs, make([]byte, 32<<10)), append(w.names, nil)
	}
	for {
		n, err := unix.ReadDirent(fd, w.bufs[level])
		if err != nil {
			return fmt.Errorf("list directory: %w", err)
		}
		if n == 0 {
			return nil
		}
		_, _, w.names[level] = unix.ParseDirent(w.bufs[level][:n], -1, w.names[level][:0])
		for _, name := range w.names[level] {
			var st unix.Stat_t
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return fmt.Errorf("look at %s: %w", name, err)
			}
			w.count++
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			below, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
			if err != nil {
				return fmt.Errorf("open %s: %w", name, err)
			}
			if err := w.dir(below, level+1); err != nil {
				return err
			}
		}
	}
}
