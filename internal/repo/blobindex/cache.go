package blobindex

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/hashcache/held"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const cacheFile = "cache.db"

// Cache returns the local cache of this repository, opened at the first call, for what it remembers besides blobs; nil if
// there is no disk for one. Verbs that need no blob index never open it, so that they run beside a backup without taking
// anything from it.
func (x *Index) Cache() (*hashcache.Cache, error) {
	if x.isClosed() {
		return nil, fmt.Errorf("open cache: %w", os.ErrClosed)
	}
	c, err := x.layers.first()
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	onDisk, _ := c.(*hashcache.Cache)
	return onDisk, nil
}

func (x *Index) isClosed() bool {
	x.closeMu.Lock()
	defer x.closeMu.Unlock()
	return x.closed
}

// newLayers returns where the caches of a run may lie. Without its cache a run is slower, which is no reason to fail.
func (x *Index) newLayers(private bool) *layers {
	s := &layers{note: x.note, limit: held.Blobs}
	if x.opt.HeldBlobs > 0 {
		s.limit = x.opt.HeldBlobs
	}
	dir := x.opt.Dir
	if dir != "" && !private {
		s.places = append(s.places, place{dir, x.openShared})
	}
	for _, dir := range [...]string{dir, os.TempDir()} {
		if dir != "" {
			s.places = append(s.places, place{dir, func() (known, error) {
				c, err := hashcache.OpenTemp(dir, x.repo, x.opt.Door(dir))
				if err != nil {
					return nil, err
				}
				return c, nil
			}})
		}
	}
	return s
}

// openShared opens the cache that outlives the run.
func (x *Index) openShared() (known, error) {
	c, err := hashcache.Open(filepath.Join(x.opt.Dir, cacheFile), x.repo, x.opt.Door(x.opt.Dir))
	switch {
	case errors.Is(err, hashcache.ErrStopped):
		return nil, err
	case errors.Is(err, hashcache.ErrBusy):
		x.note("another run uses the cache of this repository, so this one makes a temporary cache for itself")
		return nil, err
	case err != nil:
		x.note("the cache cannot be used, a temporary one takes its place: %v", err)
		return nil, err
	}
	if note := c.Note(); note != "" {
		x.note("%s", note)
	}
	return c, nil
}

// Folder returns the folder of the cache, "" if it has none.
func (x *Index) Folder() string { return x.opt.Dir }

// OpenNumbered makes an index for numbers of blobs in a folder of the caller's choice, or, if that is "" or cannot be used,
// in the system's for temporary files.
func (x *Index) OpenNumbered(dir string) (*hashcache.Numbered, error) {
	temp := os.TempDir()
	if dir == "" {
		dir = temp
	}
	n, err := hashcache.OpenNumbered(dir, x.opt.Door(dir))
	if err == nil || errors.Is(err, hashcache.ErrStopped) || dir == temp {
		return n, err
	}
	n, other := hashcache.OpenNumbered(temp, x.opt.Door(temp))
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return n, nil
}

// Warm reads the cache from front to back, once and if it is not large: see hashcache.Cache.Warm.
func (x *Index) Warm() {
	x.warm.Do(func() {
		if list := x.layers.all(); len(list) > 0 {
			if c, onDisk := list[0].known.(*hashcache.Cache); onDisk && !list[0].lost.Load() {
				c.Warm()
			}
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
	x.layers.close()
	if x.second.index != nil {
		x.second.index.Close()
	}
}

// Packs yields every pack that was named when the index was brought up to date, or was since. If a cache was lost since, it
// cannot: the error is ErrForgotten.
func (x *Index) Packs(yield func(format.ID) error) error {
	if x.layers.losses.Load() != x.lossesBefore.Load() {
		return ErrForgotten
	}
	if _, err := x.Cache(); err != nil {
		return err
	}
	err := x.layers.packs(yield)
	if errors.Is(err, errLost) {
		err = ErrForgotten
	}
	if err != nil {
		return fmt.Errorf("list packs of the index: %w", err)
	}
	return nil
}
