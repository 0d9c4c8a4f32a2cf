package cachefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// Lock locks a file for this process until it is closed, and makes it and its folder. It waits for another process no
// longer than wait; nil: that one keeps it. The kernel releases the lock when the process ends.
func Lock(path string, wait time.Duration, io localfs.IOContext) (file *os.File, err error) {
	for waited := time.Duration(0); file == nil && waited < wait; waited += wait / 10 {
		if waited > 0 {
			time.Sleep(wait / 10)
		}
		if err := io.Names(func() (err error) { file, err = lock(path); return err }); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// lock is Lock without waiting.
func lock(path string) (*os.File, error) {
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, file.Close()
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		mine, err := file.Stat()
		now, lstatErr := os.Lstat(path)
		if err == nil && lstatErr == nil && os.SameFile(mine, now) {
			return file, nil
		}
		_ = file.Close() // the folder was removed since, and perhaps made again
		if err != nil || lstatErr != nil && !errors.Is(lstatErr, fs.ErrNotExist) {
			return nil, errors.Join(err, lstatErr)
		}
	}
}
