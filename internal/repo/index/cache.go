package index

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
)

const cacheFile = "cache.db"

// CacheFile returns the cache file in use, which the first call opens; nil if no disk takes one. Commands that need no
// blob index never open it, so they run beside a backup without taking the file from it.
func (x *Index) CacheFile() (*cachefile.File, error) {
	if x.isClosed() {
		return nil, fmt.Errorf("open cache: %w", os.ErrClosed)
	}
	f, err := x.chain.file()
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if f == nil {
		return nil, nil
	}
	return f.File, nil
}

func (x *Index) isClosed() bool {
	x.closeMu.Lock()
	defer x.closeMu.Unlock()
	return x.closed
}

// newChain returns the caches that a run may use.
func (x *Index) newChain(private bool) *chain {
	c := &chain{note: x.note, limit: x.opt.MemoryBlobs}
	dir := x.opt.Dir
	if dir != "" && !private {
		c.folders = append(c.folders, folder{dir, x.openShared})
	}
	for _, dir := range [...]string{dir, os.TempDir()} {
		if dir != "" {
			c.folders = append(c.folders, folder{dir, func() (backend, error) {
				return asIndex(cachefile.OpenTemp(dir, x.repo, x.opt.IO(dir), x.tables()...))
			}})
		}
	}
	return c
}

func (x *Index) tables() []cachefile.Table {
	return append([]cachefile.Table{Table()}, x.opt.Tables...)
}

func asIndex(f *cachefile.File, err error) (backend, error) {
	if err != nil {
		return nil, err
	}
	return NewFileIndex(f), nil
}

// openShared opens the cache that outlives the run.
func (x *Index) openShared() (backend, error) {
	f, err := cachefile.Open(filepath.Join(x.opt.Dir, cacheFile), x.repo, x.opt.IO(x.opt.Dir), x.tables()...)
	switch {
	case errors.Is(err, cachefile.ErrBusy):
		x.note("another run uses the cache of this repository, so this one makes a temporary cache for itself")
	case err != nil && !errors.Is(err, cachefile.ErrStopped):
		x.note("the cache cannot be used, a temporary one takes its place: %v", err)
	case err == nil && f.Note() != "":
		x.note("%s", f.Note())
	}
	return asIndex(f, err)
}

// Folder returns the folder of the cache, "" if it has none.
func (x *Index) Folder() string { return x.opt.Dir }

// InMemory stands for the folder of a Temporary in memory.
const InMemory = "memory"

// OpenTemporary creates an index with numbered blobs in folder dir, or InMemory. If dir is "" or cannot be used, it is
// created in the system's folder for temporary files.
func (x *Index) OpenTemporary(dir string) (*Temporary, error) {
	if dir == InMemory {
		return newTemporary(new(memoryFile)), nil
	}
	return temporary(x, dir, OpenTemporary)
}

// OpenTempFile creates a temporary file in the same folders.
func (x *Index) OpenTempFile(dir string) (*cachefile.TempFile, error) {
	return temporary(x, dir, cachefile.OpenTempFile)
}

func temporary[T any](x *Index, dir string, open func(string, cachefile.IOContext) (*T, error)) (*T, error) {
	temp := os.TempDir()
	if dir == "" {
		dir = temp
	}
	made, err := open(dir, x.opt.IO(dir))
	if err == nil || errors.Is(err, cachefile.ErrStopped) || dir == temp {
		return made, err
	}
	made, other := open(temp, x.opt.IO(temp))
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return made, nil
}

// Prefetch reads the cache sequentially, once and if it is small: see cachefile.File.Prefetch.
func (x *Index) Prefetch() {
	x.prefetch.Do(func() {
		if f, err := x.chain.file(); err == nil && f != nil {
			f.Prefetch()
		}
	})
}

// Close releases the cache. The index must not be used afterwards.
func (x *Index) Close() {
	x.closeMu.Lock()
	defer x.closeMu.Unlock()
	if x.closed {
		return
	}
	x.closed = true
	x.chain.close()
	if x.fresh.index != nil {
		x.fresh.index.Close()
	}
	x.besides.close()
}

// Packs yields every pack that was named when the index was last synchronised, or later. If the cache was dropped
// since, the error is ErrForgotten.
func (x *Index) Packs(yield func(PackInfo) error) error {
	if x.chain.dropped.Load() != x.droppedAtSync.Load() {
		return ErrForgotten
	}
	if _, err := x.CacheFile(); err != nil {
		return err
	}
	err := x.chain.packs(yield)
	if errors.Is(err, errDropped) {
		err = ErrForgotten
	}
	if err != nil {
		return fmt.Errorf("list packs of the index: %w", err)
	}
	return nil
}
