package optionfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// Fresh makes the file one that does not exist yet, with the same new content. command is the name of the command that
// writes it.
func (f *File) Fresh(command string) {
	if len(f.Content) == 0 {
		header := "* Written by 'tidemark " + command + "'. 'tidemark options' prints what is in effect.\n"
		f.New = append([]byte(header), f.New...)
	}
	f.Content = nil
}

// SaveWithCopy writes the file, and keeps a copy of the one that was there. It returns the path of the copy, "" for
// none.
func (f *File) SaveWithCopy() (backup string, err error) { return f.save(true) }

// Save writes the file. One that has changed since it was read stays as it is.
func (f *File) Save() error {
	_, err := f.save(false)
	return err
}

func (f *File) save(copied bool) (backup string, err error) {
	path := f.Path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link to the file stays
	}
	mode := fs.FileMode(0o600)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("write the option file: %w", err)
	}
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("write the option file: %w", err)
	}
	defer unlock()
	was, err := ReadRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(f.Content) == 0:
	case errors.Is(err, fs.ErrNotExist):
		return "", ErrChanged
	case err != nil:
		return "", fmt.Errorf("write the option file: %w", err)
	case !bytes.Equal(was, f.Content):
		return "", ErrChanged
	default:
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
		if !copied {
			break
		}
		if backup, err = keep(path, was, mode); err != nil {
			return "", fmt.Errorf("keep a copy of the option file: %w", err)
		}
	}
	if err := Replace(path, f.New, mode); err != nil {
		return backup, fmt.Errorf("write the option file: %w", err)
	}
	return backup, nil
}

// lock waits until no other process of this program writes in the folder: between the comparison and the rename,
// another one would be lost. A file system without such locks has none.
func lock(dir string) (unlock func(), err error) {
	const patience, pause = 10 * time.Second, 10 * time.Millisecond
	d, err := os.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return func() {}, nil //nolint:nilerr // writing fails too, or the folder cannot be listed
	}
	for waited := time.Duration(0); ; waited += pause {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return func() { _ = d.Close() }, nil
		}
		if waited >= patience {
			return nil, errors.Join(errors.New("another program has locked its folder for a long time"), d.Close())
		}
		time.Sleep(pause)
	}
}

// keep writes a copy beside the file, under a name that is free.
func keep(path string, content []byte, mode fs.FileMode) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%d", path, n)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return name, Finish(f, content)
	}
}

// Unfinished is the pattern of the names of files that Replace has not renamed yet.
const Unfinished = ".tidemark-*.tmp"

// Replace writes a file under another name, flushes it, and renames it.
func Replace(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), Unfinished)
	if err != nil {
		return err
	}
	err = errors.Join(f.Chmod(mode), Finish(f, content))
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Finish writes a file, flushes it and closes it.
func Finish(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = pages.Sync(f, false)
	}
	return errors.Join(err, f.Close())
}

// Regular returns ErrNotRegular if path exists and is not a regular file. Symbolic links are followed.
func Regular(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	return nil
}

// ReadRegular reads a file, and fails with ErrNotRegular before it opens anything else: a pipe blocks, and a device may
// have no end.
func ReadRegular(path string) ([]byte, error) {
	if err := Regular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
