package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

const (
	// TempPrefix begins the name of every temporary file. It holds characters that no stored file's name has.
	TempPrefix = "tmp-tidemark-"
	// staleAfter is far beyond the time one Put takes, whatever the target.
	staleAfter = 24 * time.Hour
)

// Put writes a temporary file, flushes it, and renames it.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	if err := s.put(ctx, name, data); err != nil {
		return fmt.Errorf("put %s: %w", name, s.explain(err))
	}
	s.sawConfig(name)
	return nil
}

func (s *Store) put(ctx context.Context, name store.Name, data []byte) error {
	if err := admit(ctx, name); err != nil {
		return err
	}
	path := s.path(name)
	f, err := s.createTemp(filepath.Dir(path))
	if err != nil {
		return err
	}
	temp := f.Name()
	if err := s.fill(ctx, f, name.Kind, data); err != nil {
		_ = os.Remove(temp) // the error that matters is the first one
		return err
	}
	if err := again(func() error { return unix.Rename(temp, path) }); err != nil {
		_ = os.Remove(temp)
		return renameError(temp, path, err)
	}
	return syncDir(filepath.Dir(path))
}

// renameError marks the one failure that another attempt mends: the temporary file is gone, because this process was
// suspended for so long that another one cleaned it away.
func renameError(temp, path string, err error) error {
	linkErr := &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
	if errors.Is(err, unix.ENOENT) {
		if _, statErr := os.Lstat(filepath.Dir(temp)); statErr == nil {
			return fmt.Errorf("%w: the temporary file was removed while it was written: %w", store.ErrTemporary, linkErr)
		}
	}
	return linkErr
}

// fill writes, flushes and closes f.
func (s *Store) fill(ctx context.Context, f *os.File, kind store.Kind, data []byte) error {
	defer f.Close() // a second Close does nothing
	if !s.swept.Swap(true) {
		s.sweep(ctx, f)
	}
	for len(data) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.Write(data[:min(step, len(data))])
		if err != nil {
			return err
		}
		data = data[n:]
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := syncData(f); err != nil {
		return err
	}
	if kind == store.Pack {
		dropCache(f) // durable by now, and this machine does not read it again soon
	}
	return f.Close() // a network file system may tell here what it could not write
}

// createTemp opens a new temporary file in dir, which is made when it is missing and the target is there.
func (s *Store) createTemp(dir string) (*os.File, error) {
	f, err := openTemp(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if s.gone() {
		return nil, s.lost(err)
	}
	// The folder of the kind and, for packs, the one beneath it. Never the root: see the package comment.
	if parent := filepath.Dir(dir); dir != s.root && parent != s.root {
		if err := makeDir(parent); err != nil {
			return nil, err
		}
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	return openTemp(dir)
}

func openTemp(dir string) (*os.File, error) {
	var random [12]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
	path := filepath.Join(dir, TempPrefix+hex.EncodeToString(random[:]))
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, fileMode)
}

// makeDir makes one folder, unless it is there, and flushes its parent.
func makeDir(path string) error {
	err := os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// makeDirs makes a folder with all its missing parents, each of them durable.
func makeDirs(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("there is a file of that name; choose another path")}
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeDirs(parent); err != nil {
			return err
		}
	}
	return makeDir(path)
}

// syncDir makes what changed in a folder durable. Some file systems (SMB, several in user space) cannot flush a folder
// and say so; there is nothing more that could be done on them.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
