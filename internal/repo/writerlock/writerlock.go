// Package writerlock detects writers of this machine that have ended. Each writer locks a file named like
// its lease in the cache folder. The kernel releases the lock when the process ends, however it ends.
package writerlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// folderName is the folder in the cache folder of a repository that holds one file for each writer.
	folderName = "writers"
	// keptFor is how long the file of a writer that was killed stays.
	keptFor = 7 * 24 * time.Hour
)

// Lock is the locked file of a writer. A nil Lock does nothing.
type Lock struct{ file *os.File }

// Take locks a file for the writer with this lease. Where that is impossible, only the lease counts.
func Take(cache, lease string) *Lock {
	if cache == "" || identity() == "" {
		return nil
	}
	folder := filepath.Join(cache, folderName)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil
	}
	tidy(folder)
	f, err := os.OpenFile(filepath.Join(folder, lease), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil
	}
	l := &Lock{f}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		l.Release(true)
		return nil
	}
	text, err := describe(f)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		l.Release(true)
		return nil
	}
	return l
}

// Release releases the lock. It removes the file if the lease is gone; otherwise the file shows that the writer of that
// lease has ended.
func (l *Lock) Release(gone bool) {
	if l == nil {
		return
	}
	if gone {
		_ = os.Remove(l.file.Name())
	}
	_ = l.file.Close()
}

// Ended reports whether the writer with this lease was a process of this machine and has ended. It returns false if
// that is uncertain: the writer had another cache folder, ran before the last boot or in another PID namespace, or the
// file is a copy of the one that the writer locked.
func Ended(cache, lease string) bool {
	if cache == "" || identity() == "" || filepath.Base(lease) != lease {
		return false
	}
	return ended(filepath.Join(cache, folderName, lease))
}

func ended(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	want, err := describe(f)
	if err != nil {
		return false
	}
	const longest = 1 << 10
	got, err := io.ReadAll(io.LimitReader(f, longest))
	return err == nil && string(got) == want && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// describe returns the boot and PID namespace of this process, and the identity of the open file.
func describe(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", errIrregular
	}
	return fmt.Sprintf("%s %d:%d\n", identity(), st.Dev, st.Ino), nil
}

// tidy removes old files of writers that were killed. A new file may not be locked yet, so only old ones are removed.
func tidy(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < keptFor || strings.ContainsAny(e.Name(), "/.") {
			continue
		}
		path := filepath.Join(folder, e.Name())
		if f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
				_ = os.Remove(path)
			}
			_ = f.Close()
		}
	}
}
