package caches

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse: a run holds a lock in the cache.
var ErrInUse = errors.New("the cache is in use; try again when the run has ended")

func release(held []*os.File) {
	for _, f := range held {
		_ = f.Close()
	}
}

// lock locks every file in a cache that a run locks, as far as it exists.
func lock(path string) (held []*os.File, err error) {
	names := []string{"cache.db", "dirs.db", "lock"} // the first two of earlier versions
	for _, folder := range [...]string{"writers", "runs", "dirs"} {
		files, err := os.ReadDir(filepath.Join(path, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			names = append(names, filepath.Join(folder, f.Name()))
		}
	}
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(path, name), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return held, err
		}
		held = append(held, f)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return held, ErrInUse
		}
		if err != nil {
			return held, err
		}
	}
	return held, nil
}
