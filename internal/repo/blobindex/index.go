// Package blobindex knows in which pack each blob lies. The truth is in the packs; index segments on the target repeat
// it, and a local cache (package hashcache) repeats the segments in a form that can be searched. The package keeps the
// cache in step with the segments and makes up for whatever was lost: segments that are damaged or gone are made anew
// from the packs, a cache that is gone or stale from the segments.
//
// It refuses to know what blobs mean, and reads no more of a pack than it needs to list it.
package blobindex

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Options says where the cache is.
type Options struct {
	// Dir is the folder of this repository's cache. It is made when it is needed.
	Dir string
	// Private makes a cache for this run alone and removes it afterwards. It is implied if Dir is empty.
	Private bool
	// Door returns how the caches in a folder come to its device; nil: through no gate.
	Door func(dir string) hashcache.Door
	// HeldBlobs is how many blobs an index in memory knows at most, where there is no disk for it; 0: held.Blobs.
	HeldBlobs int
	// Notify is told what a person should know that is not an error.
	Notify func(text string)
}

// Index is the blob index of one repository. It is safe for concurrent use.
type Index struct {
	st   store.Store
	keys *seal.Keys
	repo [16]byte
	opt  Options

	closeMu sync.Mutex
	closed  bool

	layers       *layers
	lossesBefore atomic.Int64 // of layers, when the index was brought up to date last
	spilled      atomic.Bool  // it was told that blobs are left out
	warm         sync.Once

	syncMu   sync.Mutex
	synced   bool // brought up to date at least once
	searched bool // since the last Sync, everything has been tried to find a missing blob
	second   second

	presentOnly bool     // leave out packs that the target does not hold
	absent      sync.Map // format.ID of each pack that was left out
}

// New returns the index of the repository repo in st. Nothing is opened or read yet.
func New(st store.Store, keys *seal.Keys, repo [16]byte, opt Options) *Index {
	if opt.Notify == nil {
		opt.Notify = func(string) {}
	}
	if opt.Door == nil {
		opt.Door = func(string) hashcache.Door { return hashcache.Door{} }
	}
	x := &Index{st: st, keys: keys, repo: repo, opt: opt}
	x.layers = x.newLayers(opt.Private)
	return x
}

// Sync brings the index up to date with the segments on the target. Segments that are damaged, or vanished without
// another one that took their place, are made up for from the packs themselves. Places of blobs that were looked up
// before are not valid afterwards.
func (x *Index) Sync(ctx context.Context) error { return x.sync(ctx, mayDrop) }

// SyncLocal does what Sync does and writes nothing to the target.
func (x *Index) SyncLocal(ctx context.Context) error { return x.sync(ctx, mayDrop|localOnly) }

func (x *Index) sync(ctx context.Context, mode syncMode) error {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	return x.syncLocked(ctx, mode)
}

// Places is what a lookup is made in.
type Places interface {
	Lookup(ids []format.ID, out []hashcache.Found) error
	Pack(n uint32) (hashcache.PackInfo, error)
}

// ready brings the index up to date if that was not done yet.
func (x *Index) ready(ctx context.Context) error {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if x.synced {
		return nil
	}
	return x.syncLocked(ctx, mayDrop)
}

// mend makes up for a cache that was lost.
func (x *Index) mend(ctx context.Context) error {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	return x.mendLocked(ctx)
}

func (x *Index) mendLocked(ctx context.Context) error {
	if !x.layers.lacks() {
		return nil
	}
	return x.syncLocked(ctx, localOnly)
}

// Search calls lookup until it reports success: with the index as it is, with the newest segments, with a second index that
// is made anew, and with the packs that no segment names. This is tried once after each Sync, and the second index is
// made once; it is asked after the first, for what that has not answered.
func (x *Index) Search(ctx context.Context, lookup func(Places) (bool, error)) (bool, error) {
	if err := x.ready(ctx); err != nil {
		return false, err
	}
	for {
		ok, err := lookup(x.layers)
		if errors.Is(err, errLost) {
			err = x.mend(ctx)
			if err == nil {
				continue
			}
		}
		if ok || err != nil {
			return ok, err
		}
		break
	}
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	for _, learn := range [...]func(context.Context) error{nil, x.readNewLocked, x.makeSecondLocked, x.readUnnamedLocked} {
		if learn != nil {
			if err := learn(ctx); err != nil {
				return false, err
			}
		}
		if ok, err := x.lookupLocked(ctx, lookup); ok || err != nil || x.searched {
			return ok, err
		}
	}
	return false, nil
}

// Complete reports whether all blobs of the repository are known. If not, ErrNoRoom is why.
func (x *Index) Complete() bool { return !x.layers.tooMuch() }

func (x *Index) readNewLocked(ctx context.Context) error { return x.syncLocked(ctx, growOnly) }

func (x *Index) readUnnamedLocked(ctx context.Context) error {
	if _, err := x.rebuildLocked(ctx, nil, growOnly); err != nil {
		return fmt.Errorf("look through packs that no index segment names: %w", err)
	}
	x.searched = true
	return nil
}

// Rebuild puts every pack that no index segment names into new segments: from its trailer, or from its frames if the
// trailer is damaged. Packs that a prune has condemned are left out.
func (x *Index) Rebuild(ctx context.Context) (Rebuilt, error) {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if err := x.syncLocked(ctx, mayDrop); err != nil {
		return Rebuilt{}, err
	}
	return x.rebuildLocked(ctx, nil, growOnly)
}

// note tells the person something.
func (x *Index) note(text string, args ...any) { x.opt.Notify(fmt.Sprintf(text, args...)) }
