// Package index is the blob index of a repository: it returns in which pack each blob lies. The truth is in the packs.
// Index segments on the target repeat their tables, and a local cache repeats the segments in a form that can be
// searched. The package synchronises the cache with the segments, rebuilds segments that are damaged or missing from
// the packs, and rebuilds a cache that is missing, stale or damaged from the segments.
//
//	Cache        the hash cache: runs that all processes of a machine share, and the newest blobs (cache.go, publish.go)
//	run          one immutable file (run.go, write.go), made of pages (pages.go); folder.go names the files
//	Index        synchronises cache and segments (sync.go, rebuild.go); a fresh one against a wrong cache (fresh.go)
//	Temporary    filled once and queried, for one check or prune (temporary.go); its list is made of pages as well
package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Options configure an Index and its Cache.
type Options struct {
	Repo [16]byte // ID of the repository
	// Dir is the folder of the cache of this repository. It is created when it is needed.
	Dir string
	// Private makes a temporary cache for this run. It is implied if Dir is empty.
	Private bool
	// IO returns the I/O context of a folder; nil: all I/O is admitted.
	IO func(dir string) localfs.IOContext
	// MemoryBlobs bounds an index in memory, where no disk takes it; 0: the constant MemoryBlobs.
	MemoryBlobs int
	// Batch is how many blobs are gathered in memory for a run; 0: 64 Ki.
	Batch int
	// Notify receives notes for the user that are not errors; may be nil.
	Notify func(text string)
	// First reports whether nothing else has reported that the cache folder cannot be used; nil: always.
	First func() bool
}

// Index is the blob index of one repository. It is safe for concurrent use.
type Index struct {
	st   store.Store
	keys *seal.Keys
	opt  Options

	closing      sync.Once
	cache        *Cache
	lossesAtSync atomic.Int64 // Cache.Losses at the last Sync
	stale        atomic.Bool  // the content of the cache turned out to be wrong: Close removes it
	fullReported atomic.Bool  // the note that blobs are left out was given
	prefetch     sync.Once

	syncMu   sync.Mutex
	doubted  map[format.ID]bool // segments that marks name as damaged
	synced   bool               // at least once
	searched bool               // since the last Sync, all sources were tried for a missing blob
	fresh    freshIndex

	presentOnly bool     // leave out packs that the target does not hold, and those in without
	absent      sync.Map // format.ID of each pack that was left out
	without     map[format.ID]bool
	besides     besides
}

// New returns the index of the repository in st. Nothing is opened or read yet.
func New(st store.Store, keys *seal.Keys, opt Options) *Index {
	cache := NewCache(opt)
	return &Index{st: st, keys: keys, opt: cache.opt, cache: cache}
}

// Open opens the cache without reading the target.
func (x *Index) Open() error { return x.cache.ready() }

// Folder returns the folder of the cache, "" if it has none.
func (x *Index) Folder() string { return x.opt.Dir }

// Close releases the cache. The index must not be used afterwards.
func (x *Index) Close() {
	x.closing.Do(func() {
		if x.stale.Load() {
			_ = x.cache.Spoiled() // a cache that stays is found wrong again
		}
		x.cache.Close()
		if fresh := x.fresh.ready.Load(); fresh != nil {
			fresh.Close()
		}
		x.besides.close()
	})
}

// Packs yields every pack that was named when the index was last synchronised, or later. If a part of the cache was
// lost since, the error is ErrForgotten.
func (x *Index) Packs(yield func(PackInfo) error) error {
	if x.cache.Losses() != x.lossesAtSync.Load() {
		return ErrForgotten
	}
	err := x.cache.Packs(yield)
	if errors.Is(err, ErrLost) {
		err = ErrForgotten
	}
	if err != nil {
		return fmt.Errorf("list packs of the index: %w", err)
	}
	return nil
}

// Sync updates the cache from the segments on the target. Segments that are damaged, or are gone without a successor,
// are rebuilt from the packs.
func (x *Index) Sync(ctx context.Context) error { return x.sync(ctx, mayDrop, nil) }

// SyncLocal is Sync without writing to the target.
func (x *Index) SyncLocal(ctx context.Context) error { return x.sync(ctx, mayDrop|localOnly, nil) }

// sync synchronises. marked are segments that marks name as damaged; nil: those of the last time.
func (x *Index) sync(ctx context.Context, mode syncMode, marked map[format.ID]bool) error {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if marked != nil {
		x.doubted = marked
	}
	return x.syncLocked(ctx, mode)
}

// ready synchronises the index if that was not done yet.
func (x *Index) ready(ctx context.Context) error {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if x.synced {
		return nil
	}
	return x.syncLocked(ctx, mayDrop)
}

// refillLocked merges the segments again that the cache has lost.
func (x *Index) refillLocked(ctx context.Context) error {
	if !x.cache.Lost() {
		return nil
	}
	return x.syncLocked(ctx, localOnly)
}

// prefetchFrom is the number of blobs from which on the whole cache is read ahead. It has about that many blocks per
// MiB, so a smaller lookup needs only a small part of it.
const prefetchFrom = 1 << 10

// Search fills out, which must be as long as ids, and reports whether it has all of them, in other packs than but. It
// looks into the current index, the newest segments, a fresh index that is read again, and packs that no segment names.
// This is done once after each Sync, and the fresh index is read once; it is searched for what the first does not
// contain.
func (x *Index) Search(ctx context.Context, ids []format.ID, out []Found, but format.ID) (all bool, err error) {
	if err := x.ready(ctx); err != nil {
		return false, err
	}
	if len(ids) >= prefetchFrom {
		x.prefetch.Do(x.cache.Prefetch)
	}
	if err := x.Live(ctx).Lookup(ids, out); err != nil {
		return false, fmt.Errorf("look up blobs: %w", err)
	}
	if foundAll(out, but) {
		return true, nil
	}
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	for _, learn := range [...]func(context.Context) error{nil, x.readNewLocked, x.makeFreshLocked, x.readUnnamedLocked} {
		if learn != nil {
			if err := learn(ctx); err != nil {
				return false, err
			}
		}
		all, err := x.lookupLocked(ctx, ids, out, but)
		if err != nil {
			return false, fmt.Errorf("look up blobs: %w", err)
		}
		if all || x.searched {
			return all, nil
		}
	}
	return false, nil
}

// Complete reports whether all blobs of the repository are known. If not, the reason is ErrNoRoom.
func (x *Index) Complete() bool { return !x.cache.Full() }

func (x *Index) readNewLocked(ctx context.Context) error { return x.syncLocked(ctx, growOnly) }

func (x *Index) readUnnamedLocked(ctx context.Context) error {
	if _, err := x.rebuildUnlessInDoubt(ctx, nil, growOnly); err != nil {
		return fmt.Errorf("look through packs that no index segment names: %w", err)
	}
	x.searched = true
	return nil
}

// Rebuild writes new segments for all packs that no segment names, from their trailers, or from their frames if the
// trailer is damaged. Packs that a prune is about to remove are left out.
func (x *Index) Rebuild(ctx context.Context) error {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if err := x.syncLocked(ctx, mayDrop); err != nil {
		return err
	}
	return x.rebuildLocked(ctx, nil, growOnly)
}

// unfinishedName is the file in the cache folder that marks a session whose packs are not all in index segments yet.
const unfinishedName = "unfinished"

// SetUnfinished marks the cache while a session stores packs that no index segment names yet, and removes the mark. A
// cache that cannot be written keeps no mark.
func (x *Index) SetUnfinished(on bool) {
	if x.opt.Dir == "" || x.opt.Private {
		return
	}
	path := filepath.Join(x.opt.Dir, unfinishedName)
	_ = x.cache.io(x.opt.Dir).Names(func() error {
		if !on {
			return os.Remove(path)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// adopt puts packs that no segment names into the index, if the last session on this machine was killed while it stored
// packs. Otherwise their content would be sent again. The caller has a lease.
func (x *Index) adopt(ctx context.Context) error {
	if x.opt.Dir == "" || x.opt.Private {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(x.opt.Dir, unfinishedName)); err != nil || !x.cache.shares() {
		return nil
	}
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	x.note("the last run was cut off while it stored packs; looking for those that are in no index")
	whole, err := x.rebuildUnlessInDoubt(ctx, nil, wholeOnly)
	if err != nil {
		return fmt.Errorf("look for packs of a run that was cut off: %w", err)
	}
	x.SetUnfinished(!whole)
	return nil
}

// PutBack writes segments for all packs that no segment names and whose own table can be read. It may run beside
// lookups.
func (x *Index) PutBack(ctx context.Context) error {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if err := x.rebuildLocked(ctx, nil, wholeOnly); err != nil {
		return fmt.Errorf("put packs back: %w", err)
	}
	return nil
}

func (x *Index) note(text string, args ...any) { x.opt.Notify(fmt.Sprintf(text, args...)) }
