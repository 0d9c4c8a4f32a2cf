// Package cachefile is the files of the local caches of a repository. Everything in them can be rebuilt, so each may be
// deleted at any time.
//
//	Plain    written once, then read by any number of processes; or temporary, without a name
//	Pages    checked pages of entries in a Plain: runs of the hash cache (package index), the directory cache
//	Lock     the one process that changes a folder
package cachefile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// cut returns the part of p that one operation may move.
func cut(p []byte, maxIO int) []byte {
	if maxIO > 0 {
		return p[:min(maxIO, len(p))]
	}
	return p
}

// Plain is a file without a name, which disappears when it is closed or the process ends, or one that is written once
// and then read by any number of processes. A shared lock shows that it is in use.
//
// Under a yielding policy it is flushed as it is written. Otherwise the kernel would write it back seconds later, when
// the I/O can no longer be attributed to this run.
type Plain struct {
	io       localfs.IOContext
	f        *os.File
	identity os.FileInfo // as it was when it was opened
}

// OpenTempFile creates an empty file without a name in folder dir, which is created if it is missing.
func OpenTempFile(dir string, io localfs.IOContext) (*Plain, error) {
	t, err := Create(dir, "cache-*.tmp", io)
	if err == nil {
		if err = io.Names(func() error { return os.Remove(t.Path()) }); err != nil {
			err = errors.Join(err, t.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make temporary file: %w", err)
	}
	return t, nil
}

// Create creates an empty file in folder dir, which is created if it is missing. pattern is as for os.CreateTemp.
func Create(dir, pattern string, io localfs.IOContext) (*Plain, error) {
	t := &Plain{io: io}
	err := io.Names(func() (err error) {
		if err = os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if t.f, err = os.CreateTemp(dir, pattern); err != nil {
			return err
		}
		return t.share()
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// readWait is how long OpenRead waits for a process that is removing the whole cache.
const readWait = 50 * time.Millisecond

// OpenRead opens a file that is not written any more. The error is ErrBusy if another process is removing it.
func OpenRead(path string, io localfs.IOContext) (*Plain, error) {
	t := &Plain{io: io}
	err := io.Names(func() (err error) {
		if t.f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
			return err
		}
		return t.share()
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// share locks the file, which is closed after an error.
func (t *Plain) share() (err error) {
	for end := time.Now().Add(readWait); ; time.Sleep(readWait / 10) {
		err = unix.Flock(int(t.f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrBusy
	}
	if err == nil {
		t.identity, err = t.f.Stat()
	}
	if err == nil && !t.identity.Mode().IsRegular() {
		err = fmt.Errorf("%w: %w", ErrDamaged, errNoFile)
	}
	if err != nil {
		err = errors.Join(err, t.f.Close())
	}
	return err
}

// Path returns the name under which the file was opened.
func (t *Plain) Path() string { return t.f.Name() }

// Has reports whether a name refers to this file.
func (t *Plain) Has(path string) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, t.identity)
}

// Identity returns the file as it was when it was opened.
func (t *Plain) Identity() os.FileInfo { return t.identity }

// Size returns the bytes of the file.
func (t *Plain) Size() int64 {
	st, err := t.f.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// ReadAt reads all of p.
func (t *Plain) ReadAt(p []byte, off int64) (done int, err error) {
	for done < len(p) && err == nil {
		n := 0
		n, err = t.io.Do(iopolicy.Op{Kind: iopolicy.Read, Bytes: len(p) - done}, func(maxIO int) (int, error) {
			return t.f.ReadAt(cut(p[done:], maxIO), off+int64(done))
		})
		done += n
	}
	return done, err
}

// ReadCached is ReadAt for what mostly is in the page cache. While the gate limits I/O, pages that are there are read
// without it: they cause no I/O.
func (t *Plain) ReadCached(p []byte, off int64) (int, error) {
	if t.io.Pass.Bound() > 0 && readCached(t.f, p, off) {
		return len(p), nil
	}
	return t.ReadAt(p, off)
}

// WriteAt writes all of p.
func (t *Plain) WriteAt(p []byte, off int64) (done int, err error) {
	for done < len(p) && err == nil {
		n := 0
		n, err = t.io.Do(iopolicy.Op{Kind: iopolicy.Write, Bytes: len(p) - done}, func(maxIO int) (int, error) {
			n, err := t.f.WriteAt(cut(p[done:], maxIO), off+int64(done))
			if err == nil {
				err = t.io.Push(t.f, off+int64(done), int64(n), maxIO > 0)
			}
			return n, err
		})
		done += n
	}
	return done, err
}

// Sync flushes the file, so that it can be renamed.
func (t *Plain) Sync() error {
	_, err := t.io.Do(iopolicy.Op{Kind: iopolicy.Sync}, func(int) (int, error) { return 0, t.f.Sync() })
	return err
}

// Rename flushes the file and puts it in the place of path. Path is the old name still.
func (t *Plain) Rename(path string) error {
	err := t.Sync()
	if err == nil {
		err = t.io.Names(func() error { return os.Rename(t.Path(), path) })
	}
	return err
}

// Finish renames and closes the file, or removes it after an error: of its own, or the one that is given.
func (t *Plain) Finish(path string, err error) error {
	if err == nil {
		err = t.Rename(path)
	}
	if err != nil {
		_ = os.Remove(t.Path()) // although the run may have been cancelled
	}
	return errors.Join(err, t.Close())
}

// Close releases the file.
func (t *Plain) Close() error { return t.f.Close() }

const prefetchPiece = 1 << 20

// Prefetch reads the file sequentially into the page cache before many lookups, which would fetch pages at random.
// Errors are ignored: the lookup reports them.
func (t *Plain) Prefetch() {
	buf := make([]byte, prefetchPiece)
	for at := int64(0); ; at += prefetchPiece {
		if _, err := t.ReadAt(buf, at); err != nil { // such as the end
			return
		}
	}
}
