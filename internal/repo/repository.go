// Package repo is a repository: all data under one key, over a store. It makes and opens repositories, manages their
// key slots, locates blobs in packs, reads blobs and snapshots, and opens the sessions (package session) that write new
// ones.
//
// The index segments on the target are a cache of the packs, and the local hash cache is a cache of the segments. Both
// may be lost at any time: missing parts are detected and rebuilt. The content of blobs (trees, files) belongs to the
// packages above.
package repo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/snapcache"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// defaultFrameCache is how many bytes of opened frames are kept: enough for the frames that a tree walk revisits, and
// little beside the 200 MiB a backup may take.
const defaultFrameCache = 16 << 20

// OpenOptions configure how a repository is opened.
type OpenOptions struct {
	// Unlock returns the secret to try on a slot, or nil to skip it. It is called slot by slot, cheap slots first.
	Unlock func(*keyfile.Slot) ([]byte, error)
	// KnownSlot is the ID of the slot that opened the repository last on this machine, as SlotID returned it; "": none.
	// It is tried before others of its kind, at any cost. Without ByID, or before it, it may be that of another
	// repository at the same place.
	KnownSlot string
	// KnownSuffices leaves the other slots unread if KnownSlot, as it is before ByID, opens without a passphrase and each
	// request takes a round trip.
	KnownSuffices bool
	// ByID sets Unlock and KnownSlot where they depend on the ID of the repository; may be nil.
	ByID  func(id string, opt *OpenOptions) error
	Cache CacheOptions
	// Gate returns the gate clients of the devices on which the caches lie; nil: no gates. Writes to the caches end
	// with the context of Open or Init.
	Gate localfs.Gates
	// Notify receives notes for the user that are not errors; may be nil.
	Notify func(text string)
	// Warn receives the few notes that a user must see even with --quiet; nil: Notify.
	Warn func(text string)
}

// CacheOptions configure what is cached on this machine.
type CacheOptions struct {
	// Dir is the folder of the caches of all repositories. Each repository has a folder of its own in it.
	Dir string
	// Temporary makes a cache for this run and removes it afterwards.
	Temporary bool
	// Frames is how many bytes of opened frames are kept in memory; 0: 16 MiB.
	Frames int
	// TreeFrames is how many bytes of sealed tree frames are kept in Dir (package treecache); 0: none. They help where
	// the store is remote or slow.
	TreeFrames int64
	// MemoryBlobs bounds the blob index in memory, which is used when no disk takes it; 0: half a million blobs, 60 MB.
	MemoryBlobs int
}

// Repository is an opened repository. It is safe for concurrent use.
type Repository struct {
	st     store.Store
	keys   *seal.Keys
	master seal.MasterKey
	config *config.Config
	opt    OpenOptions
	now    func() time.Time

	frames        *Recent[treecache.Key, []byte]
	trees         *treecache.Cache // nil: no frames are kept
	copies        snapcache.Cache
	hashers       sync.Pool // *seal.Hasher
	decompressors sync.Pool // *pack.Decompressor
	sealed        sync.Pool // *[]byte: buffers for a sealed frame

	found  []Slot // by Open
	slotMu sync.Mutex
	slot   format.ID // the slot that opened the repository

	index *index.Index
	dirs  dirCache
}

// Open opens the repository in st. The error wraps ErrNoRepository without a config, ErrWrongKey if none of the secrets
// fits, format.ErrUnsupported if a newer program made it, and format.ErrCorrupt if the config is damaged.
func Open(ctx context.Context, st store.Store, opt OpenOptions) (*Repository, error) {
	r, err := open(ctx, st, opt)
	if err != nil {
		return nil, fmt.Errorf("open repository at %s: %w", st.Location(), err)
	}
	return r, nil
}

func open(ctx context.Context, st store.Store, opt OpenOptions) (*Repository, error) {
	// Config and slots are read at the same time: a share takes its time for each answer.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var slots foundSlots
	likely, alone := opt.KnownSlot, opt.KnownSuffices && !store.EndsWithProcess(st) // ByID may set another one
	var reading sync.WaitGroup
	found := make(chan struct{})
	reading.Go(func() { slots = findSlots(running, st, likely, alone, func() string { <-found; return opt.KnownSlot }) })
	raw, conf, err := readConfig(ctx, st)
	if err == nil && opt.ByID != nil {
		err = opt.ByID(conf.ID.String(), &opt)
	}
	if err != nil {
		cancel()
	}
	close(found)
	reading.Wait()
	if err != nil {
		return nil, err
	}
	opened, err := unlock(ctx, &slots, opt, raw)
	if err != nil {
		return nil, err
	}
	r := newRepository(ctx, st, conf, opened, opt)
	r.found = slots.slots
	return r, nil
}

// readConfig returns the config and its bytes.
func readConfig(ctx context.Context, st store.Store) ([]byte, *config.Config, error) {
	raw, err := object.ReadFile(ctx, st, store.Name{Kind: store.Config}, -1)
	switch {
	case errors.Is(err, store.ErrNotExist):
		return nil, nil, whyNoConfig(ctx, st)
	case errors.Is(err, store.ErrShort):
		return nil, nil, fmt.Errorf("%w: %w", err, format.ErrCorrupt)
	case err != nil:
		return nil, nil, err
	}
	conf, _, err := config.Decode(raw)
	if object.IsDamage(err) {
		if held, listErr := holds(ctx, st, store.Pack); held && listErr == nil {
			err = fmt.Errorf("%w; "+configFromCopy, err)
		}
	}
	if errors.Is(err, format.ErrUnsupported) { // random bytes look like it
		err = fmt.Errorf("%w; if this is the newest, the file config is damaged: put it back from a copy of the "+
			"repository", err)
	}
	return raw, conf, err
}

const configFromCopy = "put the file config back from a copy of the repository, and make no new repository at this " +
	"place: everything else may be intact"

// whyNoConfig distinguishes a store without a repository from a repository that has lost its config.
func whyNoConfig(ctx context.Context, st store.Store) error {
	switch held, err := holds(ctx, st, store.Snapshot, store.Index, store.Pack); {
	case err != nil:
		return err
	case held:
		return fmt.Errorf("the file config is lost: %w; "+configFromCopy, format.ErrCorrupt)
	}
	return ErrNoRepository
}

// holds reports whether there are files of some kinds. Key slots alone are harmless remains of an interrupted Init.
func holds(ctx context.Context, st store.Store, kinds ...store.Kind) (bool, error) {
	for _, kind := range kinds {
		for _, err := range st.List(ctx, kind) {
			if err != nil {
				return false, fmt.Errorf("look for a repository: %w", err)
			}
			return true, nil
		}
	}
	return false, nil
}

func newRepository(ctx context.Context, st store.Store, conf *config.Config, key unlocked,
	opt OpenOptions) *Repository {
	if opt.Notify == nil {
		opt.Notify = func(string) {}
	}
	if opt.Cache.Frames <= 0 {
		opt.Cache.Frames = defaultFrameCache
	}
	r := &Repository{
		st: st, keys: key.keys, master: key.master, config: conf, slot: key.slot, opt: opt, now: time.Now,
		frames: NewRecent[treecache.Key](opt.Cache.Frames, func(raw []byte) int { return len(raw) }),
	}
	cacheIO := func(dir string) localfs.IOContext {
		return localfs.IOContext{Ctx: ctx, Pass: opt.Gate.Pass(nil, dir)}
	}
	dir := opt.Cache.Dir
	if dir != "" {
		dir = filepath.Join(dir, conf.ID.String())
	}
	r.index = index.New(st, key.keys, index.Options{
		Repo: conf.ID, Dir: dir, Private: opt.Cache.Temporary, MemoryBlobs: opt.Cache.MemoryBlobs, Notify: opt.Notify,
		First: r.FirstCacheReport, IO: cacheIO,
	})
	if dir != "" && !opt.Cache.Temporary {
		r.copies = snapcache.Open(dir, cacheIO(dir))
		r.dirs.folder, r.dirs.io = dir, cacheIO(dir)
		if opt.Cache.TreeFrames > 0 {
			r.trees = treecache.Open(filepath.Join(dir, "trees"),
				treecache.Options{Limit: opt.Cache.TreeFrames, Notify: opt.Notify, Door: cacheIO(dir)})
		}
	}
	r.hashers.New = func() any { return key.keys.Hasher() }
	return r
}

// Keys returns the sub-keys of the repository.
func (r *Repository) Keys() *seal.Keys { return r.keys }

// ID returns the identifier of the repository, 32 hexadecimal digits.
func (r *Repository) ID() string { return r.config.ID.String() }

// SlotID returns the ID of the key slot that opened the repository, 64 hexadecimal digits.
func (r *Repository) SlotID() string { return r.current().String() }

// Config returns the parameters with which the repository was made. It must not be changed.
func (r *Repository) Config() *config.Config { return r.config }

// Store returns the underlying store.
func (r *Repository) Store() store.Store { return r.st }

// CacheFolder returns the folder of this repository's caches, "" if it has none. It may not exist yet.
func (r *Repository) CacheFolder() string { return r.index.Folder() }

// Index returns the blob index.
func (r *Repository) Index() *index.Index { return r.index }

// Sync updates the blob index from the index segments on the target, and rebuilds segments that were lost.
func (r *Repository) Sync(ctx context.Context) error { return r.index.Sync(ctx) }

// RecordDamage marks packs or index segments as damaged, so that the next backup of any machine stores the needed blobs
// of the packs again, and replaces the segments. It skips files that are already marked and returns how many it marked.
// An empty list stands for blobs without any pack: the next backup then examines everything that it takes over from an
// earlier snapshot.
func (r *Repository) RecordDamage(ctx context.Context, host string, files []format.ID) (recorded int, err error) {
	return marks.Record(ctx, r.st, r.keys, host, files)
}

// StillDamaged returns those of the packs that are missing or damaged also when they are read over another connection.
func (r *Repository) StillDamaged(ctx context.Context, packs []format.ID) ([]format.ID, error) {
	return object.StillDamaged(ctx, r.st, packs)
}

// Close releases the caches. The repository must not be used afterwards. The error is always nil: a cache that fails
// causes at most a note.
func (r *Repository) Close() error {
	r.trees.Close()
	r.index.Close()
	if err := r.dirs.close(); err != nil && r.FirstCacheReport() {
		r.note("the directory cache cannot be closed: %v", err)
	}
	return nil
}

// note passes a note to the user.
func (r *Repository) note(text string, args ...any) { r.opt.Notify(fmt.Sprintf(text, args...)) }

// warn passes a note to the user that --quiet does not suppress.
func (r *Repository) warn(text string, args ...any) {
	if r.opt.Warn == nil {
		r.note(text, args...)
		return
	}
	r.opt.Warn(fmt.Sprintf(text, args...))
}

// blobID computes the ID of a blob.
func (r *Repository) blobID(p []byte) format.ID {
	h := r.hashers.Get().(*seal.Hasher)
	defer r.hashers.Put(h)
	return h.ID(p)
}

// decompressor returns a pooled decompressor; return it with r.decompressors.Put.
func (r *Repository) decompressor() *pack.Decompressor {
	if d, ok := r.decompressors.Get().(*pack.Decompressor); ok {
		return d
	}
	return pack.NewDecompressor()
}
