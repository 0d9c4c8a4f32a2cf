package index

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// backend is one cache of the index: the file that outlives the run, a temporary file, or memory.
type backend interface {
	Lookup(ids []format.ID, out []Found) error
	Pack(n uint32) (PackInfo, error)
	Segments() (map[format.ID]int64, error)
	Merge(id format.ID, seg *index.Segment) error
	Drop() error
	Close() error
}

// folder is where a cache can be opened.
type folder struct {
	dir  string
	open func() (backend, error)
}

// chain is the cache of one run and its replacements. One cache is in use at a time. When a read or a write of it
// fails, whatever the reason, the chain drops it, reports that once, and opens the next one, into which the index is
// read again from the target. The order is: the cache folder, the folder for temporary files, memory, which is bounded
// and never fails.
//
// A dropped cache is removed if it is damaged, or if this run has written most of it, so that its remains do not keep a
// disk full. Pack numbers contain the generation of their cache; those of a dropped cache return ErrNoPack.
type chain struct {
	note  func(text string, args ...any)
	limit int // of blobs in memory

	mu       sync.Mutex // held while a cache is opened, written or dropped
	folders  []folder   // not tried yet
	reported bool
	closed   bool

	current atomic.Pointer[generation]
	dropped atomic.Int64 // number of caches that were dropped
	refill  atomic.Int64 // value of dropped when the index was last read completely
}

type generation struct {
	backend
	dir    string
	number uint32
	gone   atomic.Bool
}

const (
	// generationShift is the position of the generation in a pack number: above all packs, and below the bits that
	// freshPack and dry runs set.
	generationShift = 29
	packMask        = 1<<generationShift - 1
)

// incomplete reports whether a cache was dropped and its replacement does not hold the index yet.
func (c *chain) incomplete() bool { return c.dropped.Load() != c.refill.Load() }

// open returns the cache in use, and opens the next one if there is none. The caller holds c.mu.
func (c *chain) open() (*generation, error) {
	if g := c.current.Load(); g != nil && !g.gone.Load() {
		return g, nil
	}
	for {
		next := folder{open: func() (backend, error) { return newMemoryIndex(c.limit), nil }}
		if len(c.folders) > 0 {
			next, c.folders = c.folders[0], c.folders[1:]
		}
		b, err := next.open()
		if errors.Is(err, cachefile.ErrStopped) {
			return nil, err
		}
		if err == nil {
			g := &generation{backend: b, dir: next.dir, number: uint32(c.dropped.Load())}
			c.current.Store(g)
			return g, nil
		}
	}
}

// get is open for callers that do not hold c.mu.
func (c *chain) get() (*generation, error) {
	if g := c.current.Load(); g != nil && !g.gone.Load() {
		return g, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open()
}

// file returns the cache file in use, nil if the index is in memory.
func (c *chain) file() (*FileIndex, error) {
	g, err := c.get()
	if err != nil {
		return nil, err
	}
	f, _ := g.backend.(*FileIndex)
	return f, nil
}

// check drops g if err shows that it cannot be used, and returns errDropped then.
func (c *chain) check(g *generation, err error) error {
	if err == nil || errors.Is(err, cachefile.ErrStopped) || errors.Is(err, ErrNoPack) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return err
	}
	c.drop(g, err)
	return errDropped
}

// drop ends the use of g. The caller holds c.mu.
func (c *chain) drop(g *generation, why error) {
	if g.gone.Swap(true) {
		return
	}
	c.dropped.Add(1)
	f, onDisk := g.backend.(*FileIndex)
	if !onDisk {
		return
	}
	c.folders = slices.DeleteFunc(c.folders, func(f folder) bool { return f.dir == g.dir })
	damaged := errors.Is(why, cachefile.ErrDamaged)
	f.Abandon(damaged || f.MostlyNew())
	if !f.FirstReport() || c.reported {
		return
	}
	c.reported = true
	if damaged {
		c.note("the local cache cannot be read and is removed: this run uses a temporary one, and the next run rebuilds "+
			"it: %v", why)
		return
	}
	c.note("the local cache in %s cannot be written: this run continues, but saves nothing to it; free space there, or "+
		"choose another folder with --cache-dir: %v", g.dir, why)
}

// Lookup fills out, which must be as long as ids.
func (c *chain) Lookup(ids []format.ID, out []Found) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: space for %d results", len(ids), len(out))
	}
	if c.incomplete() {
		return errDropped
	}
	g, err := c.get()
	if err != nil {
		return err
	}
	if err := c.check(g, g.Lookup(ids, out)); err != nil || g.number == 0 {
		return err
	}
	markPacks(out, g.number<<generationShift)
	return nil
}

// markPacks sets bits in the pack numbers of what was found.
func markPacks(out []Found, bits uint32) {
	for i := range out {
		if out[i].OK {
			out[i].Loc.Pack |= bits
		}
	}
}

// Pack returns a pack by its number. A number of a dropped cache is ErrNoPack.
func (c *chain) Pack(n uint32) (PackInfo, error) {
	g := c.current.Load()
	if g == nil || g.number != n>>generationShift || g.gone.Load() {
		return PackInfo{}, fmt.Errorf("pack %d: %w", n, ErrNoPack)
	}
	info, err := g.Pack(n & packMask)
	if err = c.check(g, err); errors.Is(err, errDropped) {
		err = fmt.Errorf("pack %d: %w", n, ErrNoPack)
	}
	return info, err
}

// packs yields every pack of the index.
func (c *chain) packs(yield func(PackInfo) error) error {
	g, err := c.get()
	if err != nil {
		return err
	}
	for n := uint32(0); ; n++ {
		info, err := g.Pack(n)
		if errors.Is(err, ErrNoPack) {
			return nil
		}
		if err = c.check(g, err); err != nil {
			return err
		}
		if err := yield(info); err != nil {
			return err
		}
	}
}

// Segments returns which index segments were merged, and the sizes of their files in bytes; 0: not known.
func (c *chain) Segments() (map[format.ID]int64, error) {
	g, err := c.get()
	if err != nil {
		return nil, err
	}
	merged, err := g.Segments()
	return merged, c.check(g, err)
}

// Merge adds the content of a segment.
func (c *chain) Merge(id format.ID, seg *index.Segment) error {
	return c.write(func(g *generation) error { return g.Merge(id, seg) })
}

// Drop deletes all blobs, packs and segments.
func (c *chain) Drop() error { return c.write(func(g *generation) error { return g.Drop() }) }

func (c *chain) write(change func(*generation) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.open()
	if err == nil {
		err = change(g)
	}
	if err == nil || errors.Is(err, cachefile.ErrStopped) || c.closed {
		return err
	}
	c.drop(g, err)
	return errDropped
}

// full reports whether blobs were left out because memory is bounded.
func (c *chain) full() bool {
	g := c.current.Load()
	if g == nil {
		return false
	}
	x, inMemory := g.backend.(*memoryIndex)
	return inMemory && x.full()
}

// close releases the cache. An error only gets a note: the run is over.
func (c *chain) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	g := c.current.Load()
	if g == nil || g.gone.Load() {
		return
	}
	f, onDisk := g.backend.(*FileIndex)
	if err := g.Close(); err != nil && !c.reported && (!onDisk || f.FirstReport()) {
		c.reported = true
		c.note("the local cache in %s cannot be closed: %v", g.dir, err)
	}
}
