package target

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// folder is the folder in which probes try things. Real ones are directories of door 1; those of tests misbehave.
type folder interface {
	// Write makes a new file; an existing name is an error. It is flushed if flush is set.
	Write(name string, data []byte, flush bool) error
	// Read returns what a file holds, and what is known of it.
	Read(name string) ([]byte, localfs.Stat, error)
	Rename(old, new string) error
	// Names lists the folder.
	Names() ([]string, error)
	// Flush times how long it takes to make size new bytes durable, and after that nothing.
	Flush(name string, size int) (dirty, clean time.Duration, err error)
	// FlushNames makes names durable.
	FlushNames() error
}

// room is a folder on a file system.
type room struct {
	dir  *localfs.Dir
	path string
	door localfs.Door
}

func (r *room) Write(name string, data []byte, flush bool) error {
	w, err := r.dir.CreateFile(name)
	if err != nil {
		return err
	}
	if _, err = w.WriteAt(data, 0); err == nil && flush {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

func (r *room) Read(name string) ([]byte, localfs.Stat, error) {
	f, err := r.dir.OpenFile(name)
	if err != nil {
		return nil, localfs.Stat{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, st, err
	}
	data := make([]byte, st.Size)
	n, err := f.ReadAt(data, 0)
	return data[:n], st, err
}

func (r *room) Rename(old, new string) error { return r.dir.Rename(old, new) }

func (r *room) Names() ([]string, error) { return namesOf(r.dir) }

func namesOf(dir *localfs.Dir) ([]string, error) {
	var names []string
	err := dir.Entries(make([]byte, 32<<10), func(name []byte, _ tree.Type, _ uint64) error {
		names = append(names, string(name))
		return nil
	})
	return names, err
}

func (r *room) Flush(name string, size int) (dirty, clean time.Duration, err error) {
	w, err := r.dir.CreateFile(name)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if _, err = w.WriteAt(noise(1, size), 0); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err = w.Sync(); err != nil {
		return 0, 0, err
	}
	dirty = time.Since(begin)
	begin = time.Now()
	err = w.Sync()
	return dirty, time.Since(begin), err
}

// FlushNames does what localfs.Dir.SyncDir does, and tells where the file system has no such call.
func (r *room) FlushNames() error {
	return r.do(iopolicy.Op{Kind: iopolicy.Sync, Certain: true}, func() error {
		d, err := os.Open(r.path)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Sync()
	})
}

// do makes a call that door 1 does not have as one operation of the gate.
func (r *room) do(op iopolicy.Op, call func() error) error {
	_, err := r.door.Pass.Do(r.door.Ctx, op, func(int) (int, error) { return 0, call() })
	return err
}

// removeAll empties a folder and removes it, one level deep, as deep as probes write. What is gone already is no error.
func removeAll(parent *localfs.Dir, name string) error {
	dir, err := parent.Open(name)
	if err != nil {
		return ignoreGone(err)
	}
	defer dir.Release()
	names, err := namesOf(dir)
	var failed error
	for _, one := range names {
		var st localfs.Stat
		if dir.Lstat(one, &st) == nil && st.Type == tree.Dir {
			failed = errors.Join(failed, removeAll(dir, one))
		} else {
			failed = errors.Join(failed, ignoreGone(dir.Remove(one, false)))
		}
	}
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("remove temporary folder %s: %w", name, err)
	}
	return ignoreGone(parent.Remove(name, true))
}

func ignoreGone(err error) error {
	if errors.Is(err, localfs.ErrVanished) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
