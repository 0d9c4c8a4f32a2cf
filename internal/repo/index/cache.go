package index

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Cache is the hash cache as one process sees it: which pack holds each blob. It is safe for concurrent use.
//
//	memory     the newest segments; full, or at the end, it becomes a run
//	runs       immutable files, by age; the newest place of a blob counts
//	places     folders that take runs: the shared one, then for files without a name: beside it, and the system's
//
// A lookup searches memory, then the runs from the newest to the oldest. Readers hold no lock that stops another
// process: they list the folder and open what is there. Only the process with the lock of the folder publishes a run,
// which is a rename, and removes files. A process that does not get the lock keeps its runs to itself.
//
// When a run cannot be read, it and all that is newer is dropped, since of two places of a blob the one merged last
// counts. ErrLost then asks the caller to merge the segments again that Segments does not name.
type Cache struct {
	opt    Options
	shared folder

	write   sync.Mutex // held by one writer
	opened  atomic.Bool
	closed  bool
	places  []place
	noMerge bool          // there was no space for a merged run
	held    bool          // this process has the lock of the folder
	bad     []os.FileInfo // files of dropped runs that could not be removed

	mu     sync.RWMutex // guards what follows
	runs   []*run       // by age; those without a name are the last
	memory *memory

	lookups  sync.Pool    // *lookup
	losses   atomic.Int64 // how often runs were dropped
	restored atomic.Int64 // value of losses when the segments were last merged again
}

// place is a folder that takes runs.
type place struct {
	dir   string
	named bool // runs are published
}

const (
	// batchBlobs is how many blobs are gathered in memory: 7 MiB, and 7 MiB while they are written.
	batchBlobs = 64 << 10
	// runsPerClass is how many runs of one order of magnitude may exist, and the factor between orders. With 8, a blob
	// among 20 million was rewritten three times, and a lookup searches some ten runs.
	runsPerClass = 8
	// smallRun is the order of magnitude that all short runs share.
	smallRun = 4096
	// prefetchMax is the size in bytes of the largest cache that Prefetch reads: the index of a million small files.
	prefetchMax = 64 << 20
)

// io returns the I/O context of a folder.
func (c *Cache) io(dir string) (d localfs.IOContext) {
	if c.opt.IO != nil {
		d = c.opt.IO(dir)
	}
	return d
}

// NewCache returns a cache. Nothing is opened or read yet.
func NewCache(opt Options) *Cache {
	if opt.Notify == nil {
		opt.Notify = func(string) {}
	}
	if opt.First == nil {
		opt.First = func() bool { return true }
	}
	if opt.MemoryBlobs <= 0 {
		opt.MemoryBlobs = MemoryBlobs
	}
	if opt.Batch <= 0 {
		opt.Batch = batchBlobs
	}
	opt.Batch = min(opt.Batch, opt.MemoryBlobs)
	c := &Cache{opt: opt, shared: folder{opt.Dir}}
	if opt.Dir != "" && !opt.Private {
		c.places = append(c.places, place{c.shared.runs(), true})
	}
	for _, dir := range [...]string{opt.Dir, os.TempDir()} {
		if dir != "" {
			c.places = append(c.places, place{dir, false})
		}
	}
	c.memory = newMemory(c.limit())
	c.lookups.New = func() any { return new(lookup) }
	return c
}

// Refresh opens the runs that there are, also those that other processes have published since the last call. It waits
// for no other process.
func (c *Cache) Refresh() error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.refresh()
}

func (c *Cache) refresh() error {
	c.opened.Store(true)
	if c.closed {
		return fmt.Errorf("open cache: %w", os.ErrClosed)
	}
	if len(c.places) == 0 || !c.places[0].named {
		return nil
	}
	tidy := false
	err := c.io(c.opt.Dir).Names(func() (err error) { tidy, err = c.shared.prepare(); return err })
	if err == nil && !tidy {
		tidy, err = c.relist(false)
	}
	if err == nil && tidy {
		err = c.locked(func(locked bool) error { _, err := c.relist(locked); return err })
	}
	if err == nil || errors.Is(err, localfs.ErrStopped) {
		return err
	}
	return c.fail("the cache cannot be used, a temporary one takes its place: %v", err)
}

// lockWait is how long a process waits for the lock. Others hold it for a publication, which mostly is shorter.
const lockWait = 50 * time.Millisecond

// locked runs a call with the lock of the folder, or without it if another process keeps it.
func (c *Cache) locked(call func(locked bool) error) error {
	if c.held {
		return call(true)
	}
	lock, err := cachefile.Lock(filepath.Join(c.opt.Dir, lockName), lockWait, c.io(c.opt.Dir))
	if err != nil {
		return err
	}
	defer lock.Close() // without a lock it does nothing
	c.held = lock != nil
	defer func() { c.held = false }()
	return call(c.held)
}

// limit is the bound of memory: where a disk takes runs it is never reached.
func (c *Cache) limit() int {
	if len(c.places) > 0 {
		return math.MaxInt
	}
	return c.opt.MemoryBlobs
}

// shares reports whether runs may be published.
func (c *Cache) shares() bool {
	c.write.Lock()
	defer c.write.Unlock()
	return len(c.places) > 0 && c.places[0].named
}

// ready opens the cache if that was not done yet.
func (c *Cache) ready() error {
	if c.opened.Load() {
		return nil
	}
	c.write.Lock()
	defer c.write.Unlock()
	if c.opened.Load() {
		return nil
	}
	return c.refresh()
}

// Lookup fills out, which must be as long as ids.
func (c *Cache) Lookup(ids []format.ID, out []Found) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: space for %d results", len(ids), len(out))
	}
	if err := c.ready(); err != nil {
		return err
	}
	clear(out)
	return c.reading(func() error {
		if c.Lost() { // here, so that none sees what a loss has left
			return ErrLost
		}
		return c.search(ids, out)
	})
}

// reading runs a call that reads runs. The runs stay open meanwhile.
func (c *Cache) reading(call func() error) error {
	c.mu.RLock()
	err := fmt.Errorf("read cache: %w", os.ErrClosed)
	if c.memory != nil {
		err = call()
	}
	c.mu.RUnlock()
	return c.check(err)
}

func (c *Cache) search(ids []format.ID, out []Found) error {
	q := c.lookups.Get().(*lookup)
	defer c.lookups.Put(q)
	q.order = q.order[:0]
	for i := range ids {
		if out[i] = c.memory.lookup(&ids[i]); out[i].Pack == nil {
			q.want(&ids[i], i)
		}
	}
	q.sort()
	for _, r := range slices.Backward(c.runs) {
		if len(q.order) == 0 {
			return nil
		}
		if err := r.search(q, ids, out); err != nil {
			return err
		}
	}
	return nil
}

// Segments returns the merged index segments and the sizes of their files in bytes; 0: not known.
func (c *Cache) Segments() (map[format.ID]int64, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	all := make(map[format.ID]int64)
	err := c.reading(func() error {
		for _, r := range c.runs {
			maps.Copy(all, r.merged)
		}
		maps.Copy(all, c.memory.segments)
		return nil
	})
	return all, err
}

// Packs yields every pack. One that several segments name may be yielded several times.
func (c *Cache) Packs(yield func(PackInfo) error) error {
	if err := c.ready(); err != nil {
		return err
	}
	return c.reading(func() error {
		for _, r := range c.runs {
			for n := uint32(0); n < r.Packs; n += packsAtOnce {
				some, err := r.packsAt(n)
				if err != nil {
					return err
				}
				for i := range some {
					if err := yield(some[i]); err != nil {
						return err
					}
				}
			}
		}
		for _, p := range c.memory.packs {
			if err := yield(*p); err != nil {
				return err
			}
		}
		return nil
	})
}

// Lost reports whether runs were dropped whose segments were not merged again.
func (c *Cache) Lost() bool { return c.losses.Load() != c.restored.Load() }

// Full reports whether blobs were left out because memory is bounded.
func (c *Cache) Full() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.memory != nil && c.memory.leftOut
}

// Merge adds the content of a segment, unless it was merged before. A known blob gets its new place. superseded are
// segments that it replaces: they count as merged as long as it does. A merge occasionally rewrites runs; lookups
// continue meanwhile.
func (c *Cache) Merge(id format.ID, seg *index.Segment, superseded ...format.ID) error {
	if err := c.ready(); err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	if c.closed {
		return fmt.Errorf("merge into cache: %w", os.ErrClosed)
	}
	if _, had := c.memory.segments[id]; had || c.inRuns(id) {
		return nil
	}
	n := 0
	for i := range seg.Packs {
		n += seg.Packs[i].Table.Blobs()
	}
	if have := len(c.memory.blobs); have > 0 && have+n > c.opt.Batch {
		if err := c.spill(); err != nil {
			return err
		}
	}
	for i := range seg.Packs {
		c.mu.Lock()
		c.memory.add(&seg.Packs[i])
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.memory.segments[id] = seg.Stored
	for _, old := range superseded {
		if _, had := c.memory.segments[old]; !had {
			c.memory.segments[old] = 0
		}
	}
	c.mu.Unlock()
	if len(c.memory.blobs) >= c.opt.Batch {
		return c.spill()
	}
	return nil
}

// inRuns reports whether a run has a segment.
func (c *Cache) inRuns(id format.ID) bool {
	return slices.ContainsFunc(c.runs, func(r *run) bool { _, had := r.merged[id]; return had })
}

// Forget drops segments, with all that was merged since the oldest of them.
func (c *Cache) Forget(segments ...format.ID) error {
	if err := c.ready(); err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	if c.closed {
		return fmt.Errorf("drop segments from cache: %w", os.ErrClosed)
	}
	for i, r := range c.runs {
		if slices.ContainsFunc(segments, func(id format.ID) bool { _, had := r.merged[id]; return had }) {
			return c.cut(i)
		}
	}
	return c.cut(len(c.runs))
}

// Spoiled drops everything: the content turned out to be wrong.
func (c *Cache) Spoiled() error {
	c.write.Lock()
	defer c.write.Unlock()
	if c.closed {
		return nil
	}
	return c.cut(0)
}

// Prefetch reads the runs sequentially, if they are small: see cachefile.Plain.Prefetch.
func (c *Cache) Prefetch() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	total := int64(0)
	for _, r := range c.runs {
		total += r.file.Size()
	}
	if total > prefetchMax {
		return
	}
	for _, r := range c.runs {
		r.file.Prefetch()
	}
}

// Publish makes a run of what is in memory, if this process may publish one. The error is ErrLost or
// localfs.ErrStopped.
func (c *Cache) Publish() error {
	c.write.Lock()
	defer c.write.Unlock()
	if c.closed || len(c.places) == 0 || !c.places[0].named {
		return nil
	}
	if err := c.store(false); errors.Is(err, ErrLost) || errors.Is(err, localfs.ErrStopped) {
		return err
	}
	return nil // what is in memory stays there
}

// Close publishes what is in memory, and closes the runs. The cache must not be used afterwards.
func (c *Cache) Close() {
	if !c.Lost() {
		_ = c.Publish() // what is not published is read again by the next run
	}
	c.write.Lock()
	defer c.write.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	for _, r := range c.runs {
		_ = r.file.Close()
	}
	c.runs, c.memory = nil, nil
}

func (c *Cache) note(text string, args ...any) { c.opt.Notify(fmt.Sprintf(text, args...)) }
