// Package caches lists and removes the cache folders of repositories on this machine. Each repository has one folder,
// named by its ID, in the folder of all caches. A file in it records where the repository was opened last; the time of
// that file is the last use.
//
// A cache in use is never removed. Its users hold locks on its files, on their file in "writers", or on the lock
// of a prune. A folder is renamed before its files are removed, so a run that starts meanwhile makes a new one.
package caches

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// openedName is the file that records the location of the repository.
	openedName = "opened"
	// removedPrefix begins the name of a folder that is being removed.
	removedPrefix = "removed-"
	// touchAfter is the precision of the last use.
	touchAfter = time.Hour
	// idDigits is the length of the ID of a repository in a name.
	idDigits = 32
	// longestLocation bounds what is read of the file openedName.
	longestLocation = 4 << 10
)

// Cache is the cache folder of a repository.
type Cache struct {
	Repository string    `json:"repository_id"` // 32 hexadecimal digits
	Path       string    `json:"path"`
	Location   string    `json:"location,omitempty"` // of the repository; "": unknown
	Bytes      int64     `json:"bytes"`              // on disk
	Used       time.Time `json:"last_used"`
	InUse      bool      `json:"in_use"`
}

// Opened records that the repository at location was opened with the cache folder. Failures are ignored: without the
// record, the times of other files count.
func Opened(folder, location string) {
	path := filepath.Join(folder, openedName)
	if info, err := os.Lstat(path); err == nil && location == read(path) {
		if now := time.Now(); now.Sub(info.ModTime()).Abs() > touchAfter {
			_ = os.Chtimes(path, now, now)
		}
		return
	}
	f, err := os.CreateTemp(folder, openedName+"-*")
	if err != nil {
		return // the folder does not exist: there is nothing to remove
	}
	_, err = io.WriteString(f, location+"\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// read returns the location in a file, "" if there is none.
func read(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestLocation))
	if err != nil {
		return ""
	}
	location, _, _ := strings.Cut(string(text), "\n")
	return location
}

// List returns the caches in a folder, the one that was used last first. A missing folder has none.
func List(dir string) ([]Cache, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list caches: %w", err)
	}
	var all []Cache
	for _, e := range entries {
		if !e.IsDir() || !isRepository(e.Name()) {
			continue
		}
		c := Cache{Repository: e.Name(), Path: filepath.Join(dir, e.Name())}
		if err := c.measure(); err != nil {
			return nil, fmt.Errorf("look at cache %s: %w", c.Path, err)
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Cache) int { return b.Used.Compare(a.Used) })
	return all, nil
}

// isRepository reports whether a name is the ID of a repository.
func isRepository(name string) bool {
	return len(name) == idDigits && strings.Trim(name, "0123456789abcdef") == ""
}

// measure fills in all that the folder shows. Files that disappear meanwhile do not count.
func (c *Cache) measure() error {
	c.Location = read(filepath.Join(c.Path, openedName))
	err := filepath.WalkDir(c.Path, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				c.add(path, info)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	locks, err := lock(c.Path)
	c.InUse = errors.Is(err, ErrInUse)
	release(locks)
	return nil
}

// add counts a file or folder. The folder itself changes when this package looks at it, so its time does not count.
func (c *Cache) add(path string, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		c.Bytes += st.Blocks * 512
	} else if info.Mode().IsRegular() {
		c.Bytes += info.Size()
	}
	if path != c.Path && info.ModTime().After(c.Used) {
		c.Used = info.ModTime()
	}
}

// Gone reports whether the repository was in a folder of this machine that does not exist now: it was removed, or its
// disk is not mounted. It returns false for another location.
func (c *Cache) Gone() bool {
	if !filepath.IsAbs(c.Location) {
		return false
	}
	_, err := os.Lstat(filepath.Join(c.Location, "config"))
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// Remove removes a cache. The error wraps ErrInUse if a run uses it.
func Remove(c Cache) error {
	held, err := lock(c.Path)
	defer release(held)
	if err != nil {
		return fmt.Errorf("remove cache %s: %w", c.Path, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(c.Path), removedPrefix+"*")
	if err == nil {
		err = os.Rename(c.Path, filepath.Join(dir, c.Repository))
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove cache %s: %w", c.Path, err)
	}
	return nil
}

// Sweep removes what an interrupted Remove has left in the folder of all caches.
func Sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, removedPrefix+"*")) // the pattern is well-formed
	for _, path := range left {
		_ = os.RemoveAll(path)
	}
}

// Last returns the ID of the repository that was opened at a location last, and when, by the records in the folder of
// all caches; "": unknown. Of several, since a repository may replace another at its location, it is the one used last.
// It reads one small file of each cache.
func Last(dir, location string) (id string, opened time.Time, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", opened, nil
	}
	if err != nil {
		return "", opened, fmt.Errorf("look for the cache of %s: %w", location, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name(), openedName)
		if !e.IsDir() || !isRepository(e.Name()) || read(path) != location {
			continue
		}
		if info, err := os.Lstat(path); err == nil && (id == "" || info.ModTime().After(opened)) {
			id, opened = e.Name(), info.ModTime()
		}
	}
	return id, opened, nil
}
