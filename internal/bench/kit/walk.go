// This file counts the objects of a tree in the simplest way: it opens and lists one directory after the other and
// stats each entry once. Other programs are compared with it, so it allocates nothing for an entry.

package kit

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Word is the subcommand of tidemark-bench that walks a tree in a process of its own.
const Word = "walk-tree"

// Print counts the objects of one tree, as a program.
func Print(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("name one directory")
	}
	n, err := Count(args[0])
	if err == nil {
		fmt.Println(n)
	}
	return err
}

// Count returns the number of objects below root.
func Count(root string) (objects int64, err error) {
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
