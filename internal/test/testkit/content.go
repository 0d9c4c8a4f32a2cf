package testkit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// content compares the bytes of two files. It skips holes common to both, so that a huge sparse file costs only the
// time for its data.
func (c *comparison) content(dirs [2]int, path, name string, st [2]*unix.Stat_t) {
	if !c.looksAt(AspectContent) {
		return
	}
	if st[0].Size != st[1].Size {
		c.differ(path, "size %d, %d", st[0].Size, st[1].Size)
		return
	}
	fds, errs := both(dirs, func(_, dir int) (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if c.fail(path, "open file", errs) {
		closeAll(fds, errs)
		return
	}
	files := [2]*os.File{os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")}
	defer files[0].Close()
	defer files[1].Close()
	at, err := firstDifference(c.ctx, files, st[0].Size)
	switch {
	case err != nil:
		c.differ(path, "read: %v", err)
	case at >= 0:
		c.differ(path, "content differs at byte %d of %d", at, st[0].Size)
	}
}

// firstDifference returns the offset of the first byte that differs, or -1.
func firstDifference(ctx context.Context, files [2]*os.File, size int64) (int64, error) {
	const step = 1 << 20
	buf := [2][]byte{make([]byte, min(step, size)), make([]byte, min(step, size))}
	for at := int64(0); at < size; {
		next := min(nextData(files[0], at), nextData(files[1], at))
		if at = max(at, next); at >= size {
			return -1, nil
		}
		if err := ctx.Err(); err != nil {
			return -1, err
		}
		n := int(min(step, size-at))
		for i, f := range files {
			if _, err := io.ReadFull(io.NewSectionReader(f, at, int64(n)), buf[i][:n]); err != nil {
				return -1, fmt.Errorf("%s at %d: %w", f.Name(), at, err)
			}
		}
		if !bytes.Equal(buf[0][:n], buf[1][:n]) {
			for k := range n {
				if buf[0][k] != buf[1][k] {
					return at + int64(k), nil
				}
			}
		}
		at += int64(n)
	}
	return -1, nil
}

// nextData returns the offset of the first data at or after at. It is at itself where the file system has no SEEK_DATA,
// and the largest number where only a hole follows.
func nextData(f *os.File, at int64) int64 {
	off, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch err {
	case nil:
		return off
	case unix.ENXIO:
		return math.MaxInt64
	}
	return at
}
