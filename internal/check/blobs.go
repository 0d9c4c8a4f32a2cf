package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// framesKept is how many bytes of opened frames are kept: pages of neighbouring directories lie in the same frame.
const framesKept = 16 << 20

// The ranks of packs in the index of a check. A blob counts where the lowest rank has it.
const (
	named  = iota // named by an index segment, and there in full
	stray         // there, but named by no segment
	marked        // present in full, but a mark calls it damaged: its readable parts count
	doomed        // there, named by no segment, and a prune is about to remove it
	gone          // named by a segment, and missing or cut off
)

// openFrame is a frame, or why it cannot be opened: a failing disk is not asked twice.
type openFrame struct {
	raw []byte
	err error
}

// frameError reports that a frame cannot be read. Any other error of load reports that the frame holds other bytes than
// the blob.
type frameError struct{ err error }

func (e *frameError) Error() string { return e.err.Error() }
func (e *frameError) Unwrap() error { return e.err }

// load reads a blob from the target, not from the cache of trees, and compares it with its ID.
func (c *checker) load(ctx context.Context, h *seal.Hasher, id format.ID, at blobindex.Found) ([]byte, error) {
	f, err := c.frames.Get(ctx, treecache.Key{Pack: at.Pack.ID, Offset: at.Offset}, func() (f openFrame, _ error) {
		f.raw, _, f.err = c.r.ReadFrame(ctx, *at.Pack, at.Offset, at.Sealed)
		return f, nil
	})
	if err = cmp.Or(err, f.err); err != nil {
		return nil, &frameError{err}
	}
	raw, end := f.raw, uint64(at.Skip)+uint64(at.Len)
	if end > uint64(len(raw)) || h.ID(raw[at.Skip:end]) != id {
		return nil, fmt.Errorf("frame at %d does not hold blob %s where the index says: %w", at.Offset,
			id.Short(), format.ErrCorrupt)
	}
	return raw[at.Skip:end:end], nil
}

// besides returns a blob from another pack, as a restore does, because its place at is damaged. The error is errLost if
// no other pack has it.
func (c *checker) besides(ctx context.Context, h *seal.Hasher, id format.ID, at *blobindex.Place) ([]byte, error) {
	if at.Rank() != named { // no other pack has it
		return nil, errLost
	}
	bad, err := c.index.Found(at)
	if err != nil {
		return nil, err
	}
	in, found, err := c.r.Index().Besides(ctx, id, bad.Pack.ID)
	var blob []byte
	if err == nil && found {
		blob, err = c.load(ctx, h, id, in)
	}
	switch {
	case err != nil && fatal(ctx, err):
		return nil, err
	case err != nil || !found:
		return nil, errLost
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others[in.Pack.ID] = true
	return blob, nil
}

// noteOthers notes the packs that have what snapshots need of damaged packs.
func (c *checker) noteOthers() {
	ids := slices.SortedFunc(maps.Keys(c.others), format.ID.Compare)
	if len(ids) == 0 {
		return
	}
	text := "what snapshots need of damaged packs can also be read from %s, such as %s"
	if i := slices.IndexFunc(ids, func(id format.ID) bool { f := c.packs.find(id); return f != nil && !f.named }); i >= 0 {
		ids[0] = ids[i]
		text += ", which no index segment names: the next backup, or 'tidemark repair index', puts it back into the index"
	}
	c.found.Note(text, human.Plural(uint64(len(ids)), "other pack"), ids[0])
}
