// Package lease detects writers of this machine that have ended. Each writer locks a file named like
// its lease in the cache folder. The kernel releases the lock when the process ends, however it ends.
package lease

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

// Presence is the locked file of a writer. A nil Presence does nothing.
type Presence struct{ file *os.File }

// Announce locks a file for the writer with this lease. Where that is impossible, only the lease counts.
func Announce(cache, lease string) *Presence {
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
	p := &Presence{f}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		p.End()
		return nil
	}
	text, err := describe(f)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		p.End()
		return nil
	}
	return p
}

// End removes the file and releases the lock.
func (p *Presence) End() {
	if p == nil {
		return
	}
	_ = os.Remove(p.file.Name())
	_ = p.file.Close()
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
