package repo

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
func (r *Repository) Cache() (*hashcache.Cache, error) {
	r.cacheMu.Lock()
	defer r.cacheMu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("open cache: %w", os.ErrClosed)
	}
	if r.cache != nil {
		return r.cache, nil
	}
	c, err := r.openCache()
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	r.cache = c
	return c, nil
}

func (r *Repository) openCache() (*hashcache.Cache, error) {
	if r.opt.NoCache || r.opt.CacheDir == "" {
		return r.openPrivate()
	}
	dir := filepath.Join(r.opt.CacheDir, r.ID())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.note("the cache folder cannot be used, a temporary cache takes its place: %v", err)
		return r.openPrivate()
	}
	removeLeftovers(dir, r.now())
	c, err := hashcache.Open(filepath.Join(dir, cacheFile), r.config.ID)
	switch {
	case errors.Is(err, hashcache.ErrBusy):
		r.note("another run uses the cache of this repository, so this one makes a temporary cache for itself")
		return r.openPrivate()
	case err != nil:
		r.note("the cache cannot be used, a temporary one takes its place: %v", err)
		return r.openPrivate()
	}
	return c, nil
}

// openPrivate makes a cache that only this Repository uses and that Close removes. It lies beside the shared one where
// that is possible: the folder for temporary files may be in memory.
func (r *Repository) openPrivate() (*hashcache.Cache, error) {
	c, dir, err := r.temporaryCache()
	if err != nil {
		return nil, err
	}
	r.private = dir
	return c, nil
}

func (r *Repository) temporaryCache() (c *hashcache.Cache, dir string, err error) {
	if r.opt.CacheDir != "" {
		dir, err = os.MkdirTemp(filepath.Join(r.opt.CacheDir, r.ID()), privatePrefix)
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tidemark-"+privatePrefix); err != nil {
			return nil, "", fmt.Errorf("make a folder for a temporary cache: %w", err)
		}
	}
	c, err = hashcache.Open(filepath.Join(dir, cacheFile), r.config.ID)
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

// Close releases the cache. The repository must not be used afterwards.
func (r *Repository) Close() error {
	r.cacheMu.Lock()
	defer r.cacheMu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var err error
	if r.cache != nil {
		err = r.cache.Close()
	}
	if r.private != "" {
		err = errors.Join(err, os.RemoveAll(r.private))
	}
	if err != nil {
		return fmt.Errorf("close cache: %w", err)
	}
	return nil
}
