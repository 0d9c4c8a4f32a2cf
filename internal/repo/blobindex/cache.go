package blobindex

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
)

const (
	cacheFile     = "cache.db"
	privatePrefix = "private-"
	// privateAge is when a private cache is taken for one that a crash left. If it is in use after all, nothing is
	// lost: its user goes on with the removed file.
	privateAge = 7 * 24 * time.Hour
)

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

func (x *Index) openCache() (*hashcache.Cache, error) {
	if x.opt.Private || x.opt.Dir == "" {
		return x.openPrivate()
	}
	if err := os.MkdirAll(x.opt.Dir, 0o700); err != nil {
		x.note("the cache folder cannot be used, a temporary cache takes its place: %v", err)
		return x.openPrivate()
	}
	removeLeftovers(x.opt.Dir, x.now())
	c, err := hashcache.Open(filepath.Join(x.opt.Dir, cacheFile), x.repo)
	switch {
	case errors.Is(err, hashcache.ErrBusy):
		x.note("another run uses the cache of this repository, so this one makes a temporary cache for itself")
		return x.openPrivate()
	case err != nil:
		x.note("the cache cannot be used, a temporary one takes its place: %v", err)
		return x.openPrivate()
	}
	return c, nil
}

// openPrivate makes a cache that only this Index uses and that Close removes.
func (x *Index) openPrivate() (*hashcache.Cache, error) {
	c, dir, err := x.Temporary()
	if err != nil {
		return nil, err
	}
	x.private = dir
	return c, nil
}

// Temporary makes an empty cache in a folder of its own, both of which the caller closes and removes. It lies beside
// the shared cache where that is possible: the folder for temporary files may be in memory.
func (x *Index) Temporary() (c *hashcache.Cache, dir string, err error) {
	if x.opt.Dir != "" {
		if err := os.MkdirAll(x.opt.Dir, 0o700); err == nil {
			dir, _ = os.MkdirTemp(x.opt.Dir, privatePrefix) // if not here, then there
		}
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tidemark-"+privatePrefix); err != nil {
			return nil, "", fmt.Errorf("make a folder for a temporary cache: %w", err)
		}
	}
	c, err = hashcache.Open(filepath.Join(dir, cacheFile), x.repo)
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	return c, dir, nil
}

// removeLeftovers removes private caches of runs that crashed long ago.
func removeLeftovers(dir string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // what cannot be listed cannot be tidied; the cache itself may still open
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), privatePrefix) {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > privateAge {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// Close releases the cache. The index must not be used afterwards.
func (x *Index) Close() error {
	x.cacheMu.Lock()
	defer x.cacheMu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	var err error
	if x.cache != nil {
		err = x.cache.Close()
	}
	if x.private != "" {
		err = errors.Join(err, os.RemoveAll(x.private))
	}
	if err != nil {
		return fmt.Errorf("close cache: %w", err)
	}
	return nil
}
