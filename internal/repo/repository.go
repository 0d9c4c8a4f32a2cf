// Package repo is a repository: everything kept in one place under one key, over a store. It makes and opens
// repositories, keeps their key slots, knows in which pack each blob lies, reads blobs and snapshots, and opens the
// sessions (package session) in which new ones are written.
//
// The index segments on the target are a cache of the packs, and the local hash cache is a cache of the segments. Both
// may be lost at any time: what is missing is noticed and rebuilt.
//
// The package refuses to know what a blob means: trees and files are the business of the verbs.
package repo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/blobindex"
	"github.com/tidemark-backup/tidemark/internal/repo/framecache"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// defaultFrameCache is how many bytes of opened frames are kept: enough for the frames a walk through a tree comes back
// to, little beside the 200 MiB a backup may take.
const defaultFrameCache = 16 << 20

// OpenOptions says how a repository is opened.
type OpenOptions struct {
	// Unlock returns the secret to try on a slot, or nil to pass over it. It is asked slot by slot, those that are quick
	// to try first. UnlockWith makes one of a list of secrets.
	Unlock func(*keyfile.Slot) ([]byte, error)
	// CacheDir is the folder of the caches of all repositories. Each has a folder of its own in it.
	CacheDir string
	// NoCache makes a private cache for this run and removes it afterwards.
	NoCache bool
	// FrameCache is how many bytes of opened frames are kept in memory; 0: 16 MiB.
	FrameCache int
	// HeldBlobs is how many blobs the index knows at most where it has to be in memory, since no disk takes it; 0: half a
	// million, 60 MB.
	HeldBlobs int
	// FrameCacheDisk is how many bytes of sealed tree frames are kept in CacheDir (package framecache); 0: none. It pays
	// where the store is far away or slow, and not where it is as near as the cache.
	FrameCacheDisk int64
	// Gate finds the ways to the devices that the caches lie on; nil: no gates. The context of Open, or of Init, then ends
	// what is written to them for as long as the repository is open.
	Gate localfs.Gates
	// Notify is told what a person should know that is not an error; may be nil.
	Notify func(text string)
}

// Repository is an opened repository. It is safe for concurrent use.
type Repository struct {
	st     store.Store
	keys   *seal.Keys
	master seal.MasterKey
	config *config.Config
	opt    OpenOptions
	now    func() time.Time

	frames        *frameCache
	trees         treeFrames
	hashers       sync.Pool // *seal.Hasher
	decompressors sync.Pool // *pack.Decompressor
	sealed        sync.Pool // *[]byte: room for a sealed frame

	slotMu sync.Mutex
	slot   format.ID // the slot that opened the repository

	index *blobindex.Index
}

// Open opens the repository in st. Without a config the error wraps ErrNoRepository; if none of the secrets fits,
// ErrWrongKey; if a newer program made it, format.ErrUnsupported; if the config is damaged, format.ErrCorrupt.
func Open(ctx context.Context, st store.Store, opt OpenOptions) (*Repository, error) {
	raw, err := readConfig(ctx, st)
	if err != nil {
		return nil, err
	}
	conf, _, err := config.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("open repository at %s: %w", st.Location(), err)
	}
	opened, err := unlock(ctx, st, opt.Unlock, raw)
	if err != nil {
		return nil, fmt.Errorf("open repository at %s: %w", st.Location(), err)
	}
	return newRepository(ctx, st, conf, opened, opt), nil
}

// readConfig returns the bytes of the config.
func readConfig(ctx context.Context, st store.Store) ([]byte, error) {
	raw, err := object.ReadFile(ctx, st, store.Name{Kind: store.Config}, -1)
	switch {
	case errors.Is(err, store.ErrNotExist):
		return nil, fmt.Errorf("open repository at %s: %w", st.Location(), whyNoConfig(ctx, st))
	case errors.Is(err, store.ErrShort):
		return nil, fmt.Errorf("open repository at %s: %w: %w", st.Location(), err, format.ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("open repository at %s: %w", st.Location(), err)
	}
	return raw, nil
}

// whyNoConfig tells a place without a repository from a repository that has lost its config.
func whyNoConfig(ctx context.Context, st store.Store) error {
	switch held, err := holdsData(ctx, st); {
	case err != nil:
		return err
	case held:
		return fmt.Errorf("the file config is lost, everything else may be there; put it back from a copy of the "+
			"repository, and make no new repository at this place: %w", format.ErrCorrupt)
	}
	return ErrNoRepository
}

// holdsData reports whether there are files that only a repository has. Key slots alone are what an interrupted Init
// leaves, and do no harm.
func holdsData(ctx context.Context, st store.Store) (bool, error) {
	for _, kind := range []store.Kind{store.Snapshot, store.Index, store.Pack} {
		for _, err := range st.List(ctx, kind) {
			if err != nil {
				return false, fmt.Errorf("look for a repository: %w", err)
			}
			return true, nil
		}
	}
	return false, nil
}

func newRepository(ctx context.Context, st store.Store, conf *config.Config, key unlocked, opt OpenOptions) *Repository {
	if opt.Notify == nil {
		opt.Notify = func(string) {}
	}
	if opt.FrameCache <= 0 {
		opt.FrameCache = defaultFrameCache
	}
	r := &Repository{
		st: st, keys: key.keys, master: key.master, config: conf, slot: key.slot, opt: opt, now: time.Now,
		frames: newFrameCache(opt.FrameCache),
	}
	dir := opt.CacheDir
	if dir != "" {
		dir = filepath.Join(dir, conf.ID.String())
	}
	r.index = blobindex.New(st, key.keys, conf.ID, blobindex.Options{
		Dir: dir, Private: opt.NoCache, HeldBlobs: opt.HeldBlobs, Notify: opt.Notify,
		Door: func(dir string) hashcache.Door { return hashcache.Door{Ctx: ctx, Pass: opt.Gate.Pass(nil, dir)} },
	})
	if dir != "" && !opt.NoCache && opt.FrameCacheDisk > 0 {
		r.trees.dir = filepath.Join(dir, "trees")
		r.trees.opt = framecache.Options{
			Limit: opt.FrameCacheDisk, Notify: opt.Notify,
			Door: localfs.Door{Ctx: ctx, Pass: opt.Gate.Pass(nil, dir)},
		}
	}
	r.hashers.New = func() any { return key.keys.Hasher() }
	return r
}

// Keys returns the sub-keys of the repository.
func (r *Repository) Keys() *seal.Keys { return r.keys }

// ID returns the identifier of the repository, 32 hexadecimal digits.
func (r *Repository) ID() string { return r.config.ID.String() }

// Config returns what the repository was made with. It must not be changed.
func (r *Repository) Config() *config.Config { return r.config }

// Store returns the store beneath the repository.
func (r *Repository) Store() store.Store { return r.st }

// Cache returns the local cache, opened at the first call; nil if there is no disk for one. Verbs that need no blob index
// never open it, so that they run beside a backup without taking anything from it.
func (r *Repository) Cache() (*hashcache.Cache, error) { return r.index.Cache() }

// CacheFolder returns the folder of this repository's caches, "" if it has none. It may not be there yet.
func (r *Repository) CacheFolder() string { return r.index.Folder() }

// TempIndex makes an empty index of blobs in folder dir ("": the system's) that is gone once the caller closes it.
func (r *Repository) TempIndex(dir string) (*hashcache.Numbered, error) {
	return r.index.OpenNumbered(dir)
}

// Sync brings the blob index up to date with the index segments on the target, and makes up for what was lost of them.
// Places that Locate returned before are not valid afterwards.
func (r *Repository) Sync(ctx context.Context) error { return r.index.Sync(ctx) }

// RebuildIndex puts every pack that no index segment names into new segments.
func (r *Repository) RebuildIndex(ctx context.Context) (blobindex.Rebuilt, error) {
	return r.index.Rebuild(ctx)
}

// Close releases the caches. The repository must not be used afterwards. The error is always nil: what becomes of a cache
// is at most worth a note.
func (r *Repository) Close() error {
	r.trees.close()
	r.index.Close()
	return nil
}

// note tells the person something.
func (r *Repository) note(text string, args ...any) { r.opt.Notify(fmt.Sprintf(text, args...)) }

// blobID computes the ID of a blob.
func (r *Repository) blobID(p []byte) format.ID {
	h := r.hashers.Get().(*seal.Hasher)
	defer r.hashers.Put(h)
	return h.ID(p)
}

// decompressor lends a decompressor; give it back with r.decompressors.Put.
func (r *Repository) decompressor() (*pack.Decompressor, error) {
	if d, ok := r.decompressors.Get().(*pack.Decompressor); ok {
		return d, nil
	}
	return pack.NewDecompressor()
}
