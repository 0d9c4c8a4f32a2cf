package blobindex

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const cacheFile = "cache.db"

// Cache returns the local cache of this repository, opened at the first call. Verbs that need no blob index never open
// it, so that they run beside a backup without taking anything from it.
func (x *Index) Cache() (*hashcache.Cache, error) {
	x.cacheMu.Lock()
	defer x.cacheMu.Unlock()
	if x.closed {
		return nil, fmt.Errorf("open cache: %w", os.ErrClosed)
	}
	if x.cache != nil {
		return x.cache, nil
	}
	c, err := x.openCache()
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	x.cache = c
	return c, nil
}

// openCache opens the cache of this repository, or a private one where that is wanted or the other cannot be used:
// without its cache a run is slower, which is no reason to fail.
func (x *Index) openCache() (*hashcache.Cache, error) {
	if x.opt.Private || x.opt.Dir == "" {
		return x.Temporary()
	}
	c, err := hashcache.Open(filepath.Join(x.opt.Dir, cacheFile), x.repo, x.opt.Door(x.opt.Dir))
	switch {
	case errors.Is(err, hashcache.ErrStopped):
		return nil, err
	case errors.Is(err, hashcache.ErrBusy):
		x.note("another run uses the cache of this repository, so this one makes a temporary cache for itself")
		return x.Temporary()
	case err != nil:
		x.note("the cache cannot be used, a temporary one takes its place: %v", err)
		return x.Temporary()
	}
	if note := c.Note(); note != "" {
		x.note("%s", note)
	}
	return c, nil
}

// Temporary makes an empty cache that is gone once the caller closes it. It lies beside the shared cache where that is
// possible: the folder for temporary files may be in memory.
func (x *Index) Temporary() (*hashcache.Cache, error) {
	if x.opt.Dir != "" {
		if c, err := x.OpenTemp(x.opt.Dir); err == nil || errors.Is(err, hashcache.ErrStopped) {
			return c, err
		}
	}
	return x.OpenTemp("")
}

// Folder returns the folder of the cache, "" if it has none.
func (x *Index) Folder() string { return x.opt.Dir }

// OpenTemp is Temporary in a folder of the caller's choice; "" is the system's.
func (x *Index) OpenTemp(dir string) (*hashcache.Cache, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	return hashcache.OpenTemp(dir, x.repo, x.opt.Door(dir))
}

// OpenNumbered makes an index for numbers of blobs in a folder of the caller's choice; "" is the system's.
func (x *Index) OpenNumbered(dir string) (*hashcache.Numbered, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	return hashcache.OpenNumbered(dir, x.opt.Door(dir))
}

// Close releases the cache. The index must not be used afterwards.
func (x *Index) Close() error {
	x.cacheMu.Lock()
	defer x.cacheMu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	var errs []error
	if x.cache != nil {
		errs = append(errs, x.cache.Close())
	}
	if x.second.index != nil {
		errs = append(errs, x.second.index.Close())
	}
	return errors.Join(errs...)
}

// Packs yields every pack that the index names at the moment.
func (x *Index) Packs(yield func(format.ID) error) error {
	c, err := x.Cache()
	if err != nil {
		return err
	}
	for n := uint32(0); ; n++ {
		info, err := c.Pack(n)
		if errors.Is(err, hashcache.ErrNoPack) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list packs of the index: %w", err)
		}
		if err := yield(info.ID); err != nil {
			return err
		}
	}
}
