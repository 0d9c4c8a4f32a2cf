package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

const (
	// lockedAfter is far beyond the time between the creation of a temporary file and its lock.
	lockedAfter = time.Minute
	// flushed is after how many pieces a file is flushed while others use the disk. They wait behind a flush for as long
	// as the disk needs for what its cache holds. Beside 50 reads a second, 40 MB/s on a virtio disk and flushes of 16
	// MiB, the p99 of these reads is 21 ms; beside flushes of 1 MiB it is 1.1 ms, and without flushes 0.3 ms.
	flushed = 4
)

// Put writes a temporary file, flushes it, and renames it.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	if _, err := s.put(ctx, name, data, false); err != nil {
		return fmt.Errorf("put %s: %w", name, s.explain(ctx, err))
	}
	s.sawConfig(name)
	return nil
}

// PutNew writes a temporary file, flushes it, and gives it the name if that is free.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	at, err := s.put(ctx, name, data, true)
	if err != nil {
		return store.Info{}, fmt.Errorf("put new %s: %w", name, s.explain(ctx, err))
	}
	s.sawConfig(name)
	return store.Info{Name: name, Size: int64(len(data)), Modified: at}, nil
}

// put stores a file, a fresh one only if nothing has the name. It returns the time of a lease, if this kernel sets the
// times of the file system.
func (s *Store) put(ctx context.Context, name store.Name, data []byte, fresh bool) (at time.Time, err error) {
	if err := store.Admit(ctx, name); err != nil {
		return at, err
	}
	root, err := s.openRoot(ctx)
	if err != nil {
		return at, err
	}
	defer root.Close()
	path := filepath.FromSlash(name.Path())
	f, temp, err := s.createTemp(ctx, root, filepath.Dir(path), s.keepsReserve(ctx, name), len(data))
	if err != nil {
		return at, s.orGone(ctx, err)
	}
	defer s.hold(f)()
	durable := !s.skipsFlush(name.Kind)
	if at, err = s.fill(ctx, f, name.Kind, data, durable); err == nil {
		err = s.publish(ctx, root, temp, path, durable, fresh)
	}
	if err != nil {
		discard(root, temp)
		return at, s.orGone(ctx, err)
	}
	return at, nil
}

// hold locks a temporary file until release, or until this process ends, if only this kernel has the file system
// mounted. The next run then sees at once that its writer has ended.
func (s *Store) hold(f *os.File) (release func()) {
	if !s.EndsWithProcess() {
		return func() {}
	}
	lock := -1
	_ = withFD(f, func(fd int) (err error) { // without the lock it is removed a minute later at the earliest
		if lock, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB)
	})
	return func() {
		if lock >= 0 {
			_ = unix.Close(lock)
		}
	}
}

// abandoned reports whether the lock of a temporary file shows that its writer has ended.
func (s *Store) abandoned(ctx context.Context, path string) bool {
	return s.EndsWithProcess() && s.metadata(ctx, func() error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}) == nil
}

// publish gives a temporary file below the open root its name and flushes its folder. Without that flush a crash could
// undo it after Put returned.
func (s *Store) publish(ctx context.Context, root *os.File, temp, path string, durable, fresh bool) error {
	do := s.flush
	if !durable {
		do = s.metadata
	}
	return do(ctx, func() error {
		err := withFD(root, func(fd int) error {
			return retryEINTR(func() error {
				if fresh {
					return placeNew(fd, temp, path)
				}
				return replace(fd, temp, path)
			})
		})
		if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrFenced) {
			return err
		}
		if err != nil {
			return renameError(s.abs(temp), s.abs(path), err)
		}
		if path == configName {
			s.seen.Store(nil) // the next Put observes the new config
		}
		if !durable {
			return nil
		}
		return s.syncDirAt(root, filepath.Dir(path))
	})
}

// abs returns the absolute path of a file of the repository.
func (s *Store) abs(path string) string { return filepath.Join(s.root, path) }

// orGone returns store.ErrGone if err reports a missing file or folder and the target is no longer the same: something
// else may have been mounted over it.
func (s *Store) orGone(ctx context.Context, err error) error {
	if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		if gone := s.guard(ctx); gone != nil {
			return gone
		}
	}
	return err
}

// discard removes a temporary file even if ctx has ended or the gate is shut. The caller reports an earlier error.
// After a rename the file no longer exists, which is harmless.
func discard(root *os.File, temp string) {
	_ = withFD(root, func(fd int) error { return unix.Unlinkat(fd, temp, 0) })
}

// renameError marks the one failure that a retry repairs: this process was suspended for so long that another one
// removed its temporary file as stale.
func renameError(temp, path string, err error) error {
	linkErr := &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
	if errors.Is(err, unix.ENOENT) {
		if _, statErr := os.Lstat(filepath.Dir(temp)); statErr == nil {
			return fmt.Errorf("%w: the temporary file was removed while it was written: %w", store.ErrTemporary, linkErr)
		}
	}
	return linkErr
}

// fill writes and closes f, and flushes it if durable. It returns the time of the file; see put.
func (s *Store) fill(ctx context.Context, f *os.File, kind store.Kind, data []byte, durable bool) (at time.Time,
	err error,
) {
	defer f.Close() // a second Close does nothing
	if !s.swept.Swap(true) {
		s.sweep(ctx, f.Name(), 2)
	}
	if err := s.write(ctx, f, data, durable); err != nil {
		return at, err
	}
	if kind == store.Pack {
		drop(f, 0, 0) // durable by now, and this machine does not read it again soon
	}
	if kind == store.Lease && s.EndsWithProcess() {
		info, err := f.Stat() // no operation of the disk
		if err != nil {
			return at, err
		}
		at = info.ModTime()
	}
	return at, f.Close() // network file systems report failed writes here
}

// write writes all of data, and flushes it if durable: the file must not get its name before its content is on the
// disk.
func (s *Store) write(ctx context.Context, f *os.File, data []byte, durable bool) error {
	if bound := s.pass.Bound(); len(data) <= small && (bound == 0 || len(data) <= bound) {
		op := iopolicy.Op{Kind: iopolicy.Sync, Bytes: len(data), Certain: true}
		if !durable {
			op.Kind = iopolicy.Write
		}
		_, err := s.pass.Do(ctx, op, func(int) (int, error) {
			n, err := f.Write(data)
			if err == nil && durable {
				err = syncData(f)
			}
			return n, err
		})
		return err
	}
	unflushed := 0 // pieces that the disk may hold in its cache, written while others use it
	for off := 0; off < len(data); {
		op := iopolicy.Op{Kind: iopolicy.Write, Bytes: len(data) - off, Certain: true}
		piece := store.PieceOf(ctx, store.Upload, step)
		n, err := s.pass.Do(ctx, op, func(bound int) (int, error) {
			p := data[off:min(off+piece, len(data))]
			if bound > 0 {
				p = p[:min(bound, len(p))]
			}
			n, err := f.Write(p)
			if bound > 0 {
				unflushed++
			}
			if err == nil {
				err = withFD(f, func(fd int) error { return pages.Push(fd, int64(off), int64(n), bound > 0) })
			}
			return n, err
		})
		if err != nil {
			return err
		}
		off += n
		if durable && unflushed == flushed && off < len(data) {
			if err := s.flush(ctx, func() error { return syncData(f) }); err != nil {
				return err
			}
			unflushed = 0
		}
		if err := store.Paced(ctx, store.Upload, n); err != nil {
			return err
		}
	}
	if !durable {
		return nil
	}
	return s.flush(ctx, func() error { return syncData(f) })
}

// createTemp opens a new temporary file in a folder below the open root, and returns its path there. A missing folder
// is created. With reserve it fails if a file of that size would use the last space.
func (s *Store) createTemp(ctx context.Context, root *os.File, dir string, reserve bool, size int) (
	f *os.File, temp string, err error,
) {
	temp = filepath.Join(dir, store.TempName(store.TempPrefix))
	create := func() error {
		return s.metadata(ctx, func() (err error) {
			if err := s.leavesReserve(reserve, size); err != nil {
				return err
			}
			return withFD(root, func(fd int) (err error) {
				f, err = openAt(fd, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, fileMode, s.abs(temp))
				return err
			})
		})
	}
	if err = create(); !errors.Is(err, fs.ErrNotExist) {
		return f, temp, err
	}
	if err := s.needed(s.abs(dir)); err != nil {
		return nil, temp, err
	}
	// The folder of the kind and, for packs, the one beneath it. The root itself is never created here.
	if parent := filepath.Dir(dir); parent != "." {
		if err := s.makeDirAt(ctx, root, parent); err != nil {
			return nil, temp, err
		}
	}
	if err := s.makeDirAt(ctx, root, dir); err != nil {
		return nil, temp, err
	}
	err = create()
	return f, temp, err
}

// makeDir creates one folder, unless it exists, and flushes its parent.
func (s *Store) makeDir(ctx context.Context, path string) error {
	return s.flush(ctx, func() error {
		err := os.Mkdir(path, dirMode)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return syncDir(filepath.Dir(path))
	})
}

// makeDirs creates a folder with all missing parents, and flushes each.
func (s *Store) makeDirs(ctx context.Context, path string) error {
	var info fs.FileInfo
	err := s.metadata(ctx, func() (err error) {
		info, err = os.Stat(path)
		return err
	})
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("there is a file of that name; choose another path")}
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.makeDirs(ctx, filepath.Dir(path)); err != nil {
		return err
	}
	return s.makeDir(ctx, path)
}

// syncDir makes changes in a folder durable, as part of the operation that made them. Some file systems (SMB, several
// of FUSE) cannot flush a folder, which is no error.
func syncDir(path string) error { return syncFolder(unix.AT_FDCWD, path, path) }

// syncDirAt is syncDir of a folder below the open root.
func (s *Store) syncDirAt(root *os.File, dir string) error {
	return withFD(root, func(fd int) error { return syncFolder(fd, dir, s.abs(dir)) })
}

func syncFolder(at int, dir, path string) error {
	d, err := openAt(at, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0, path)
	if err != nil {
		return err
	}
	defer d.Close()
	return pages.Sync(d, true)
}
