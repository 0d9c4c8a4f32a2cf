// Package closure follows snapshots to every blob they need: it finds out whether each is in a pack that is there, and
// afterwards which paths of which snapshots need what is lost. It brings its own index of blobs, filled from the target
// by the caller, because a check must not believe a local cache.
//
// It reads trees and lists of chunks, and refuses to read file data.
package closure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/check/finding"
	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// framesKept is how many bytes of opened frames are kept: pages of neighbouring folders lie in the same frame.
const framesKept = 16 << 20

// location is where a blob lies. The zero location stands for nowhere.
type location struct {
	in  *shelf
	loc hashcache.Loc // its Pack is the number of the blob
}

func (at *location) lost() bool { return at.in == nil }

// number is that of the blob: no two blobs share one.
func (at *location) number() uint64 { return uint64(at.loc.Pack) }

// stray reports whether no index segment names the pack.
func (at *location) stray() bool { return at.in != nil && at.in.stray }

func (at *location) pack() (hashcache.PackInfo, error) {
	info, err := at.in.PackOf(at.loc.Pack)
	if err != nil {
		return info, fmt.Errorf("look up pack: %w", err)
	}
	return info, nil
}

// place returns the frame, nil for nowhere.
func (at *location) place() (*finding.Place, error) {
	if at.lost() {
		return nil, nil
	}
	info, err := at.pack()
	return &finding.Place{Pack: info.ID, Offset: at.loc.Offset, Sealed: at.loc.Sealed}, err
}

// shelf is an index in a temporary file.
type shelf struct {
	*hashcache.Numbered
	stray bool
}

// Blobs is the blob index of a check: what the segments on the target say, and apart from it what packs hold that no
// segment names, and what packs held that are gone or too short: that counts for a blob that is nowhere else. It lies in
// temporary files, since it may be larger than the memory. In all of them together each blob has a number.
type Blobs struct {
	r       *repo.Repository
	scratch string
	named   *shelf
	strays  *shelf // nil if there are none
	gone    *shelf // likewise
	total   uint64 // numbers given
	frames  frameCache
}

// NewBlobs returns an empty index for r in temporary files in the folder scratch; empty stands for the system's.
func NewBlobs(r *repo.Repository, scratch string) (b *Blobs, err error) {
	b = &Blobs{r: r, scratch: scratch, frames: frameCache{frames: make(map[frameKey]*openFrame)}}
	b.named, err = b.open()
	return b, err
}

func (b *Blobs) open() (*shelf, error) {
	x, err := b.r.TempIndex(b.scratch)
	if err != nil {
		return nil, fmt.Errorf("make the temporary index: %w", err)
	}
	return &shelf{Numbered: x}, nil
}

// Close removes the temporary files.
func (b *Blobs) Close() error {
	var err error
	for _, s := range []*shelf{b.named, b.strays, b.gone} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("remove the temporary index: %w", err)
	}
	return nil
}

func (b *Blobs) merge(s *shelf, packs []index.Pack) error {
	first := make([]uint64, len(packs))
	for i := range packs {
		first[i] = b.total
		for j := range packs[i].Table.Frames {
			b.total += uint64(len(packs[i].Table.Frames[j].Blobs))
		}
	}
	return s.Merge(packs, first)
}

// Add makes packs known that an index segment names.
func (b *Blobs) Add(packs []index.Pack) error {
	if err := b.merge(b.named, packs); errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fill the temporary index: %w: have TMPDIR name a folder with more room", err)
	} else if err != nil {
		return fmt.Errorf("fill the temporary index: %w", err)
	}
	return nil
}

// AddStrays makes packs known that no segment names.
func (b *Blobs) AddStrays(packs []index.Pack) (err error) {
	if b.strays == nil {
		if b.strays, err = b.open(); err != nil {
			return err
		}
		b.strays.stray = true
	}
	if err := b.merge(b.strays, packs); err != nil {
		return fmt.Errorf("note packs outside the index: %w", err)
	}
	return nil
}

// AddLost makes packs known that an index segment names and that are not there, or not whole.
func (b *Blobs) AddLost(packs []index.Pack) (err error) {
	if len(packs) == 0 {
		return nil
	}
	if b.gone == nil {
		if b.gone, err = b.open(); err != nil {
			return err
		}
	}
	if err := b.merge(b.gone, packs); err != nil {
		return fmt.Errorf("note lost packs: %w", err)
	}
	return nil
}

// query is the memory of a look-up, for the next. It belongs to one goroutine.
type query struct {
	out   []location
	ask   []format.ID
	at    []int // where in out their answers go
	found []hashcache.Found
}

// locate finds where blobs lie. The answer is good until the next call with that query.
func (b *Blobs) locate(q *query, ids []format.ID) ([]location, error) {
	q.out = slices.Grow(q.out[:0], len(ids))[:len(ids)]
	clear(q.out)
	for _, s := range []*shelf{b.named, b.strays, b.gone} {
		if s == nil {
			continue
		}
		if err := q.locateIn(s, ids); err != nil {
			return nil, err
		}
	}
	return q.out, nil
}

// locateIn looks up the blobs that have no place yet.
func (q *query) locateIn(s *shelf, ids []format.ID) error {
	q.ask, q.at = q.ask[:0], q.at[:0]
	for i := range ids {
		if q.out[i].lost() {
			q.ask, q.at = append(q.ask, ids[i]), append(q.at, i)
		}
	}
	if len(q.ask) == 0 {
		return nil
	}
	q.found = slices.Grow(q.found[:0], len(q.ask))[:len(q.ask)]
	if err := s.Lookup(q.ask, q.found); err != nil {
		return fmt.Errorf("look up blobs: %w", err)
	}
	for j := range q.found {
		if q.found[j].OK {
			q.out[q.at[j]] = location{s, q.found[j].Loc}
		}
	}
	return nil
}

func (b *Blobs) one(q *query, id format.ID) (location, error) {
	at, err := b.locate(q, []format.ID{id})
	if err != nil {
		return location{}, err
	}
	return at[0], nil
}

// frameKey names a frame.
type frameKey struct {
	pack   format.ID
	offset uint32
}

// frameError says that a frame cannot be read. Without it, an error of load says that the frame holds other bytes than
// the blob.
type frameError struct{ err error }

func (e *frameError) Error() string { return e.err.Error() }
func (e *frameError) Unwrap() error { return e.err }

// load reads a blob from a pack and compares it with its ID.
func (b *Blobs) load(ctx context.Context, h *seal.Hasher, id format.ID, in hashcache.PackInfo, at *location) ([]byte, error) {
	raw, err := b.frames.get(frameKey{in.ID, at.loc.Offset}, func() ([]byte, error) {
		raw, _, err := b.r.ReadFrame(ctx, in, at.loc.Offset, at.loc.Sealed)
		return raw, err
	})
	if err != nil {
		return nil, &frameError{err}
	}
	end := uint64(at.loc.Skip) + uint64(at.loc.Len)
	if end > uint64(len(raw)) || h.ID(raw[at.loc.Skip:end]) != id {
		return nil, fmt.Errorf("frame at %d does not hold blob %s where the index says: %w", at.loc.Offset,
			id.Short(), format.ErrCorrupt)
	}
	return raw[at.loc.Skip:end:end], nil
}

// frameCache keeps the frames that were opened last, first in first out, and opens each once.
type frameCache struct {
	mu     sync.Mutex
	frames map[frameKey]*openFrame
	order  []frameKey
	size   int
}

type openFrame struct {
	once sync.Once
	raw  []byte
	err  error
}

func (c *frameCache) get(key frameKey, load func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	f, ok := c.frames[key]
	if !ok {
		f = &openFrame{}
		c.frames[key] = f
	}
	c.mu.Unlock()
	f.once.Do(func() {
		f.raw, f.err = load()
		c.keep(key, len(f.raw))
	})
	return f.raw, f.err
}

func (c *frameCache) keep(key frameKey, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = append(c.order, key)
	c.size += size
	for c.size > framesKept && len(c.order) > 1 {
		c.size -= len(c.frames[c.order[0]].raw)
		delete(c.frames, c.order[0])
		c.order = c.order[1:]
	}
}
