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
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
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
		return fmt.Errorf("put %s: %w", name, s.explain(ctx, err))
	}
	s.sawConfig(name)
	return nil
}

func (s *Store) put(ctx context.Context, name store.Name, data []byte) error {
	if err := admit(ctx, name); err != nil {
		return err
	}
	if err := s.guard(ctx); err != nil {
		return err
	}
	path := s.path(name)
	f, err := s.createTemp(ctx, filepath.Dir(path))
	if err != nil {
		return s.orLost(ctx, err)
	}
	temp, renamed := f.Name(), false
	lasting := !s.brief(name.Kind)
	do := s.flush
	if !lasting {
		do = s.look
	}
	if err = s.fill(ctx, f, name.Kind, data, lasting); err == nil {
		err = do(ctx, func() error {
			if err := again(func() error { return unix.Rename(temp, path) }); err != nil {
				return renameError(temp, path, err)
			}
			renamed = true
			if name.Kind == store.Config {
				s.seen.Store(nil) // the next Put looks at the new one
			}
			if lasting { // or a crash could take back the name of a file that was said to be stored
				if err := syncDir(filepath.Dir(path)); err != nil {
					return err
				}
			}
			return s.confirm()
		})
	}
	if !renamed {
		discard(temp)
	}
	return s.orLost(ctx, err)
}

// orLost returns err, or that the target is not the one that it was if err says that a folder or file is missing: something
// else may have been mounted here meanwhile, and they lie beneath.
func (s *Store) orLost(ctx context.Context, err error) error {
	if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		if lost := s.guard(ctx); lost != nil {
			return lost
		}
	}
	return err
}

// discard removes what will not become a file, whether ctx has ended or the gate is shut: the error that matters is the
// one before.
func discard(temp string) { _ = os.Remove(temp) }

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

// fill writes, flushes if it is to be lasting, and closes f.
func (s *Store) fill(ctx context.Context, f *os.File, kind store.Kind, data []byte, lasting bool) error {
	defer f.Close() // a second Close does nothing
	if !s.swept.Swap(true) {
		s.sweep(ctx, f)
	}
	if err := s.write(ctx, f, data, lasting); err != nil {
		return err
	}
	if kind == store.Pack {
		dropCache(f) // durable by now, and this machine does not read it again soon
	}
	return f.Close() // a network file system may tell here what it could not write
}

// write writes all of data and makes it durable, if it is to be: or its name could be durable before it, and stand for a
// part of it after a crash.
func (s *Store) write(ctx context.Context, f *os.File, data []byte, lasting bool) error {
	if bound := s.pass.Bound(); len(data) <= small && (bound == 0 || len(data) <= bound) {
		op := iopolicy.Op{Kind: iopolicy.Sync, Bytes: len(data), Certain: true}
		if !lasting {
			op.Kind = iopolicy.Write
		}
		_, err := s.pass.Do(ctx, op, func(int) (int, error) {
			n, err := f.Write(data)
			if err == nil && lasting {
				err = syncData(f)
			}
			return n, err
		})
		return err
	}
	for off := 0; off < len(data); {
		op := iopolicy.Op{Kind: iopolicy.Write, Bytes: len(data) - off, Certain: true}
		n, err := s.pass.Do(ctx, op, func(bound int) (int, error) {
			p := data[off:min(off+step, len(data))]
			if bound > 0 {
				p = p[:min(bound, len(p))]
			}
			n, err := f.Write(p)
			if err == nil {
				err = withFD(f, func(fd int) error { return pages.Push(fd, int64(off), int64(n), bound > 0) })
			}
			return n, err
		})
		if err != nil {
			return err
		}
		off += n
	}
	if !lasting {
		return nil
	}
	return s.flush(ctx, func() error { return syncData(f) })
}

// createTemp opens a new temporary file in dir, which is made when it is missing and the target is there.
func (s *Store) createTemp(ctx context.Context, dir string) (*os.File, error) {
	f, err := s.openTemp(ctx, dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if lost := s.missed(ctx, err); lost != nil {
		return nil, lost
	}
	if lost := s.needed(dir); lost != nil {
		return nil, lost
	}
	// The folder of the kind and, for packs, the one beneath it. Never the root: see the package comment.
	if parent := filepath.Dir(dir); dir != s.root && parent != s.root {
		if err := s.makeHere(ctx, parent); err != nil {
			return nil, err
		}
	}
	if err := s.makeHere(ctx, dir); err != nil {
		return nil, err
	}
	return s.openTemp(ctx, dir)
}

func (s *Store) openTemp(ctx context.Context, dir string) (f *os.File, err error) {
	var random [12]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
	path := filepath.Join(dir, TempPrefix+hex.EncodeToString(random[:]))
	err = s.look(ctx, func() (err error) {
		f, err = open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, fileMode)
		return err
	})
	return f, err
}

// makeDir makes one folder, unless it is there, and flushes its parent.
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

// makeDirs makes a folder with all its missing parents, each of them durable.
func (s *Store) makeDirs(ctx context.Context, path string) error {
	var info fs.FileInfo
	err := s.look(ctx, func() (err error) {
		info, err = os.Stat(path)
		return err
	})
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
		if err := s.makeDirs(ctx, parent); err != nil {
			return err
		}
	}
	return s.makeDir(ctx, path)
}

// syncDir makes what changed in a folder durable. Some file systems (SMB, several in user space) cannot flush a folder
// and say so; there is nothing more that could be done on them. It is a part of the operation that made the change.
func syncDir(path string) error {
	d, err := open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return syncOpen(d)
}

// syncOpen is syncDir of an open folder.
func syncOpen(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
