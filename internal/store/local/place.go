package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// replace renames a temporary file over an earlier one. Both paths are below the folder that fd has open.
func replace(fd int, temp, path string) error {
	err := unix.Renameat(fd, temp, fd, path)
	if errors.Is(err, unix.EISDIR) && filepath.Dir(path) == store.Lease.Folder() {
		return fmt.Errorf("%w (%w)", store.ErrFenced, err)
	}
	return err
}

// placeNew gives a temporary file its name unless that is taken. It tries a rename without replacement, which every
// file system of a disk has on Linux and macOS; then a hard link, as on NFS; then a copy into a file that is created
// exclusively, which is not whole from the beginning.
func placeNew(fd int, temp, path string) error {
	err := renameNew(fd, temp, path)
	if lacking(err) {
		err = linkNew(fd, temp, path)
	}
	if lacking(err) {
		err = copyNew(fd, temp, path)
	}
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if unix.Fstatat(fd, path, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%w (%w)", store.ErrFenced, err)
	}
	return fmt.Errorf("%w (%w)", store.ErrExists, err)
}

// lacking reports whether a file system does not offer an operation.
func lacking(err error) bool {
	return store.IsAny(err, unix.EINVAL, unix.ENOSYS, unix.ENOTSUP, unix.EOPNOTSUPP, unix.EPERM)
}

func linkNew(fd int, temp, path string) error {
	if err := unix.Linkat(fd, temp, fd, path, 0); err != nil {
		return err
	}
	_ = unix.Unlinkat(fd, temp, 0) // it goes as a stale temporary file otherwise
	return nil
}

func copyNew(fd int, temp, path string) error {
	from, err := openAt(fd, temp, unix.O_RDONLY|unix.O_NOFOLLOW, 0, temp)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openAt(fd, path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, fileMode, path)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err = to.ReadFrom(from); err == nil {
		err = syncData(to)
	}
	if err != nil {
		_ = unix.Unlinkat(fd, path, 0)
		return err
	}
	_ = unix.Unlinkat(fd, temp, 0)
	return to.Close()
}

// Fence makes an empty folder of the name: see store.IsFence.
func (s *Store) Fence(ctx context.Context, name store.Name) error {
	err := name.CheckFence()
	if err == nil {
		err = store.Admit(ctx, name)
	}
	if err == nil {
		err = s.fence(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("fence %s: %w", name, s.explain(ctx, err))
	}
	return nil
}

func (s *Store) fence(ctx context.Context, name store.Name) error {
	root, err := s.openRoot(ctx)
	if err != nil {
		return err
	}
	defer root.Close()
	path := filepath.FromSlash(name.Path())
	err = s.makeDirAt(ctx, root, path)
	if errors.Is(err, fs.ErrNotExist) { // tools that copy a repository may leave out empty folders
		if err = s.makeDirAt(ctx, root, filepath.Dir(path)); err == nil {
			err = s.makeDirAt(ctx, root, path)
		}
	}
	if err != nil {
		return s.orGone(ctx, err)
	}
	info, err := s.stat(ctx, name) // what makeDirAt found may be a file
	switch {
	case err == nil && !info.IsDir():
		return store.ErrExists
	case absent(err):
		return fmt.Errorf("%w: the name was taken and is free now", store.ErrTemporary)
	}
	return err
}

// unlink removes a file or a fence.
func unlink(path string, kind store.Kind) error {
	err := retryEINTR(func() error { return unix.Unlink(path) })
	if kind == store.Lease && (errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM)) { // EPERM on macOS
		if rmdir := retryEINTR(func() error { return unix.Rmdir(path) }); !errors.Is(rmdir, unix.ENOTDIR) {
			err = rmdir
		}
	}
	if err != nil {
		return &fs.PathError{Op: "unlink", Path: path, Err: err}
	}
	return nil
}
