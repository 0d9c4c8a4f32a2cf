package repo

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// copiesTried is how many further copies of a damaged blob are read.
const copiesTried = 3

// Locate looks up where blobs lie. out must be as long as ids. A blob that is not found has no pack, which is not an
// error here. The search covers new index segments, packs that no segment names, and a rebuilt index.
func (r *Repository) Locate(ctx context.Context, ids []format.ID, out []index.Found) error {
	_, err := r.index.Search(ctx, ids, out, format.ID{})
	return err
}

// LoadBlob returns a blob, verified against its ID. The caller must not change it: it shares memory with the frame it
// came from, which is cached. The error names pack and blob. It wraps store.ErrNotExist if the blob or its pack is
// missing, and format.ErrCorrupt if the frame is damaged and no other pack has the blob.
func (r *Repository) LoadBlob(ctx context.Context, id format.ID) ([]byte, error) {
	return r.load(ctx, id, r.loadFrom)
}

// LoadBlobBut is LoadBlob for a caller that could not open frame bad of pack p, with the reason why. That frame is not
// read again.
func (r *Repository) LoadBlobBut(ctx context.Context, id format.ID, p index.PackInfo, bad Span,
	why error) ([]byte, error) {
	return r.load(ctx, id, func(ctx context.Context, id format.ID, at index.Found) ([]byte, error) {
		if *at.Pack == p && (Span{at.Offset, at.Sealed}) == bad {
			return nil, why
		}
		return r.loadFrom(ctx, id, at)
	})
}

func (r *Repository) load(ctx context.Context, id format.ID,
	from func(context.Context, format.ID, index.Found) ([]byte, error)) (
	[]byte, error,
) {
	at, err := r.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, err)
	}
	if r.index.Absent(at.Pack.ID) { // then the pack is not searched for each blob that also lies elsewhere
		if other, found, err := r.index.Elsewhere(ctx, id, at.Pack.ID); found && err == nil {
			at, from = other, r.loadFrom
		}
	}
	blob, err := from(ctx, id, at)
	if errors.Is(err, store.ErrNotExist) {
		// A prune may have moved the blob to another pack since the index was read. Or the pack is lost and an older
		// one also holds the blob.
		if other, found, failed := r.index.Elsewhere(ctx, id, at.Pack.ID); found && failed == nil {
			at = other
			blob, err = r.loadFrom(ctx, id, at)
		}
	}
	if err != nil {
		blob, err = r.loadFromFresh(ctx, id, at, err)
	}
	if object.IsDamage(err) {
		blob, err = r.loadBesides(ctx, id, at, err)
	}
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, &PackError{Pack: at.Pack.ID, Err: err})
	}
	return blob, nil
}

// loadFromFresh retries a blob whose cached location failed, with the location in the fresh index. If that is the same
// or unknown, the error is the first one.
func (r *Repository) loadFromFresh(ctx context.Context, id format.ID, at index.Found, first error) ([]byte, error) {
	if !object.IsDamage(first) && !errors.Is(first, store.ErrNotExist) {
		return nil, first
	}
	now, err := r.index.Fresh(ctx, id)
	if err != nil || now.Pack == nil || now.Loc == at.Loc && *now.Pack == *at.Pack {
		return nil, first
	}
	blob, err := r.loadFrom(ctx, id, now)
	if err != nil {
		return nil, first
	}
	r.index.MarkStale()
	return blob, nil
}

// loadBesides tries other copies of a blob whose place at holds other bytes, or none.
func (r *Repository) loadBesides(ctx context.Context, id format.ID, at index.Found, first error) ([]byte, error) {
	for range copiesTried {
		other, found, err := r.index.Besides(ctx, id, at.Pack.ID)
		if err != nil || !found {
			return nil, first
		}
		at = other
		if blob, err := r.loadFrom(ctx, id, at); err == nil {
			return blob, nil
		}
	}
	return nil, first
}

// LoadBlobAt is LoadBlob for a caller whose own index already has the location.
func (r *Repository) LoadBlobAt(ctx context.Context, id format.ID, at index.Found) ([]byte, error) {
	blob, err := r.loadFrom(ctx, id, at)
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, &PackError{Pack: at.Pack.ID, Err: err})
	}
	return blob, nil
}

func (r *Repository) loadFrom(ctx context.Context, id format.ID, at index.Found) ([]byte, error) {
	raw, err := r.frames.Get(ctx, treecache.Key{Pack: at.Pack.ID, Offset: at.Offset}, func() ([]byte, error) {
		return r.loadFrame(ctx, *at.Pack, Span{at.Offset, at.Sealed})
	})
	if err != nil {
		return nil, err
	}
	end := uint64(at.Skip) + uint64(at.Len)
	if end > uint64(len(raw)) {
		return nil, fmt.Errorf("pack %s: frame at %d has %d bytes, the blob would end at %d: %w", at.Pack.ID,
			at.Offset, len(raw), end, format.ErrCorrupt)
	}
	blob := raw[at.Skip:end:end]
	if r.blobID(blob) != id {
		return nil, fmt.Errorf("pack %s: frame at %d holds other bytes there: %w", at.Pack.ID, at.Offset,
			format.ErrCorrupt)
	}
	return blob, nil
}

// find looks a blob up in all sources.
func (r *Repository) find(ctx context.Context, id format.ID) (index.Found, error) {
	var out [1]index.Found
	found, err := r.index.Search(ctx, []format.ID{id}, out[:], format.ID{})
	switch {
	case err == nil && !found && !r.index.Complete():
		err = fmt.Errorf("%w: %w", index.ErrNoRoom, store.ErrNotExist)
	case err == nil && !found:
		err = fmt.Errorf("it is in no pack of this repository: %w", store.ErrNotExist)
	}
	return out[0], err
}

// Absent returns an error that wraps store.ErrNotExist if the target is known to lack a pack. LoadBlob finds the blobs
// of such a pack that also lie elsewhere. The absence is known only after LoadBlob has failed to read the pack.
func (r *Repository) Absent(pack format.ID) error {
	if !r.index.Absent(pack) {
		return nil
	}
	return fmt.Errorf("pack %s is lost: %w", pack, store.ErrNotExist)
}
