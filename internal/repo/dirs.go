package repo

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/dircache"
)

// dirsName is the folder of the directory cache in the cache folder of a repository. One backup at a time opens it.
const dirsName = "dirs"

// dirCache is the directory cache, opened when it is needed.
type dirCache struct {
	folder   string // "": there is none
	io       localfs.IOContext
	reported atomic.Bool // a note that the cache folder cannot be used was given

	mu    sync.Mutex
	tried bool
	cache *dircache.Cache
}

// DirCache returns the directory cache, which the first call opens; nil if there is none: another backup uses it, or it
// cannot be opened. Such a failure is a note.
func (r *Repository) DirCache() (*dircache.Cache, error) {
	d := &r.dirs
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tried || d.folder == "" {
		return d.cache, nil
	}
	cache, note, err := dircache.Open(filepath.Join(d.folder, dirsName), r.config.ID, d.io)
	if errors.Is(err, localfs.ErrStopped) {
		return nil, err
	}
	d.tried = true
	switch {
	case errors.Is(err, cachefile.ErrBusy):
		r.note("another run uses the directory cache of this repository, so this one compares all directories")
		return nil, nil
	case err != nil:
		if r.FirstCacheReport() {
			r.note("the directory cache cannot be used: %v", err)
		}
		return nil, nil
	case note != "" && r.FirstCacheReport():
		r.note("%s", note)
	}
	d.cache = cache
	return d.cache, nil
}

// FirstCacheReport returns true once: of several components that find the cache folder unusable, one reports it.
func (r *Repository) FirstCacheReport() bool { return !r.dirs.reported.Swap(true) }

func (d *dirCache) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried = true
	if d.cache == nil {
		return nil
	}
	err := d.cache.Close()
	d.cache = nil
	return err
}
