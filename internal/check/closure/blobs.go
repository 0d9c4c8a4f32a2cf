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
	"sync"

	"github.com/tidemark-backup/tidemark/internal/check/finding"
	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// framesKept is how many bytes of opened frames are kept: pages of neighbouring folders lie in the same frame.
const framesKept = 16 << 20

// location is where a blob lies.
type location struct {
	pack  hashcache.PackInfo
	loc   hashcache.Loc
	stray bool // in a pack that no index segment names
}

// Blobs is the blob index of a check: what the segments on the target say, and apart from it what packs hold that no
// segment names, and what packs held that are gone or too short: that counts for a blob that is nowhere else. It lies in temporary files, since it may be larger than the memory.
type Blobs struct {
	r       *repo.Repository
	scratch string
	named   *hashcache.Cache
	strays  *hashcache.Cache // nil if there are none
	lost    *hashcache.Cache // likewise
	frames  frameCache
}

// NewBlobs returns an empty index for r in temporary files in the folder scratch; empty stands for the system's.
func NewBlobs(r *repo.Repository, scratch string) (b *Blobs, err error) {
	b = &Blobs{r: r, scratch: scratch, frames: frameCache{frames: make(map[frameKey]*openFrame)}}
	b.named, err = b.open()
	return b, err
}

func (b *Blobs) open() (*hashcache.Cache, error) {
	c, err := b.r.TempCache(b.scratch)
	if err != nil {
		return nil, fmt.Errorf("make the temporary index: %w", err)
	}
	return c, nil
}

// Close removes the temporary files.
func (b *Blobs) Close() error {
	err := b.named.Close()
	for _, c := range []*hashcache.Cache{b.strays, b.lost} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("remove the temporary index: %w", err)
	}
	return nil
}

// Add makes an index segment known.
func (b *Blobs) Add(id format.ID, seg *index.Segment) error {
	if err := b.named.Merge(id, seg); err != nil {
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
	}
	if err := b.strays.Merge(packs[0].ID, &index.Segment{Packs: packs}); err != nil {
		return fmt.Errorf("note packs outside the index: %w", err)
	}
	return nil
}

// AddLost makes packs known that an index segment names and that are not there, or not whole.
func (b *Blobs) AddLost(segment format.ID, packs []index.Pack) (err error) {
	if len(packs) == 0 {
		return nil
	}
	if b.lost == nil {
		if b.lost, err = b.open(); err != nil {
			return err
		}
	}
	if err := b.lost.Merge(segment, &index.Segment{Packs: packs}); err != nil {
		return fmt.Errorf("note lost packs: %w", err)
	}
	return nil
}

// locate finds where blobs lie; nil stands for nowhere. The IDs should ascend: files are then read in their order.
func (b *Blobs) locate(ids []format.ID) ([]*location, error) {
	out := make([]*location, len(ids))
	for _, in := range []struct {
		cache *hashcache.Cache
		stray bool
	}{{b.named, false}, {b.strays, true}, {b.lost, false}} {
		if in.cache == nil {
			continue
		}
		if err := locateIn(in.cache, ids, out, in.stray); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (at *location) place() *finding.Place {
	if at == nil {
		return nil
	}
	return &finding.Place{Pack: at.pack.ID, Offset: at.loc.Offset, Sealed: at.loc.Sealed}
}

// locateIn looks up the blobs that have no place yet.
func locateIn(c *hashcache.Cache, ids []format.ID, out []*location, stray bool) error {
	var ask []format.ID
	var at []int
	for i := range ids {
		if out[i] == nil {
			ask, at = append(ask, ids[i]), append(at, i)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found := make([]hashcache.Found, len(ask))
	if err := c.Lookup(ask, found); err != nil {
		return fmt.Errorf("look up blobs: %w", err)
	}
	var info hashcache.PackInfo // of the pack number last: the blobs of one folder mostly lie in one pack
	known, last := false, uint32(0)
	for j, f := range found {
		if !f.OK {
			continue
		}
		if !known || f.Loc.Pack != last {
			var err error
			if info, err = c.Pack(f.Loc.Pack); err != nil {
				return fmt.Errorf("look up pack: %w", err)
			}
			known, last = true, f.Loc.Pack
		}
		out[at[j]] = &location{pack: info, loc: f.Loc, stray: stray}
	}
	return nil
}

func (b *Blobs) one(id format.ID) (*location, error) {
	at, err := b.locate([]format.ID{id})
	if err != nil {
		return nil, err
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

// load reads a blob and compares it with its ID.
func (b *Blobs) load(ctx context.Context, h *seal.Hasher, id format.ID, at *location) ([]byte, error) {
	raw, err := b.frames.get(frameKey{at.pack.ID, at.loc.Offset}, func() ([]byte, error) {
		raw, _, err := b.r.ReadFrame(ctx, at.pack, at.loc.Offset, at.loc.Sealed)
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
