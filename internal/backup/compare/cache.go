package compare

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/dircache"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Cache is the directory cache: digests and names of directories, kept between runs. An entry counts while a snapshot
// that contains the directory's tree is in the repository; its names count only until the next boot. The cache only
// saves time: when it cannot be read or written, mostly because a disk is full, the run goes on without it.
//
// A nil Cache is empty. It is safe for concurrent use, except for Commit and Discard.
type Cache struct {
	ledger  *report.Ledger
	first   func() bool // nothing else has reported that the cache folder cannot be used
	broken  atomic.Bool
	blank   bool
	cache   *dircache.Cache
	batch   *dircache.Batch
	starts  map[format.ID]tree.Time // of the backups whose snapshots are in the repository
	boot    BootID
	refresh bool
}

// BootID identifies a boot. What happens to a file system while it is not mounted, or in a crash, need not change the
// times of its directories. Zero: unknown, and no names are kept.
type BootID [16]byte

// bootTagSize is how much of a BootID stands before the names in the cache.
const bootTagSize = 8

func (b *BootID) tag() []byte { return b[:bootTagSize] }

// OpenCache opens the directory cache of a repository. Entries count for those of the listed snapshots that could be
// read. If the cache cannot be used, it records a note and returns nil. With blank set, every Lookup misses.
func OpenCache(r *repo.Repository, listed []repo.Listed, blank bool, boot BootID, l *report.Ledger) (*Cache, error) {
	cache, err := r.DirCache()
	if err != nil || cache == nil {
		return nil, err
	}
	c := &Cache{
		ledger: l, first: r.FirstCacheReport, blank: blank, cache: cache, starts: make(map[format.ID]tree.Time, len(listed)),
	}
	ids := make([]format.ID, 0, len(listed))
	for _, l := range listed {
		if l.Snapshot != nil {
			ids = append(ids, l.ID)
			c.starts[l.ID] = l.Snapshot.Start
		}
	}
	if err := cache.SetLiveSnapshots(ids); err != nil {
		c.fail(err)
		return nil, nil
	}
	last, err := cache.Note()
	if err != nil {
		c.fail(err)
		return nil, nil
	}
	c.batch = cache.NewBatch()
	if boot != (BootID{}) {
		c.boot, c.refresh = boot, bytes.Equal(last, boot[:])
	}
	return c, nil
}

// fail ends the use of the cache for directories, and records that once.
func (c *Cache) fail(err error) {
	if err == nil || c.broken.Swap(true) || errors.Is(err, localfs.ErrStopped) {
		return
	}
	c.cache.GiveUp(err)
	if c.first() {
		c.ledger.Note("", "remember directories in the cache", err)
	}
}

func (c *Cache) usable() bool { return c != nil && !c.broken.Load() }

// Hit is the result of a Lookup.
type Hit struct {
	CacheEntry
	Start tree.Time    // of the backup that wrote the tree
	Ref   dircache.Ref // for Confirm
	Names []byte       // as they were stored since the last boot; nil: none
}

// Lookup returns the entry of a key. It is read into room, or if that is too small into larger, which is returned.
func (c *Cache) Lookup(key Digest, room []byte) (h Hit, larger []byte, ok bool) {
	if !c.usable() || c.blank {
		return h, room, false
	}
	found, ok, err := c.cache.Lookup(key, room)
	if err != nil {
		c.fail(err)
		return h, room, false
	}
	if !ok || len(found.Value) < cacheEntrySize {
		return h, room, false
	}
	entry, ok := parseCacheEntry(found.Value[:cacheEntrySize])
	h = Hit{CacheEntry: entry, Start: c.starts[found.Snapshot], Ref: found.Ref}
	if rest := found.Value[cacheEntrySize:]; c.boot != (BootID{}) && bytes.HasPrefix(rest, c.boot.tag()) {
		h.Names = rest[bootTagSize:]
	}
	return h, found.Value, ok
}

// KeepsNames reports whether names are kept besides digests.
func (c *Cache) KeepsNames() bool { return c.usable() && c.boot != (BootID{}) }

// Names returns the names kept under a key, in memory of their own.
func (c *Cache) Names(key Digest) []byte {
	h, _, _ := c.Lookup(key, nil)
	return h.Names
}

// StoresNames reports whether the names of an unchanged directory are to be stored. That pays where one boot sees many
// runs, and is a waste where each run has its own boot; so the first run after a boot leaves it to the second.
func (c *Cache) StoresNames() bool { return c.usable() && c.refresh }

// Store stores an entry and the names in the directory, if there are any to keep. Commit makes it valid.
func (c *Cache) Store(key Digest, entry *CacheEntry, names []byte) {
	if !c.usable() {
		return
	}
	value := entry.append(make([]byte, 0, cacheEntrySize+bootTagSize+len(names)))
	if len(names) > 0 && c.boot != (BootID{}) {
		value = append(append(value, c.boot.tag()...), names...)
	}
	c.fail(c.batch.Put(key, value))
}

// Confirm keeps an entry for the snapshot of this run.
func (c *Cache) Confirm(ref dircache.Ref) {
	if c != nil {
		c.batch.Keep(ref)
	}
}

// Commit makes the entries of this run valid, now that its snapshot is saved.
func (c *Cache) Commit(snapshot format.ID) {
	if !c.usable() {
		return
	}
	var note []byte
	if c.boot != (BootID{}) {
		note = c.boot[:]
	}
	c.fail(c.batch.Commit(snapshot, note))
}

// Discard drops the entries of this run; after Commit it does nothing.
func (c *Cache) Discard() {
	if c != nil {
		c.fail(c.batch.Discard())
	}
}
