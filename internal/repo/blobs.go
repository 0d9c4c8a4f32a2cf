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

// place is the location of a blob and its pack, enough to read it.
type place struct {
	pack index.PackInfo
	loc  index.Loc
}

// prefetchFrom is the number of blobs from which on the whole local index is read ahead. The index has about that many
// blocks per MiB, so a smaller lookup needs only a small part of it.
const prefetchFrom = 1 << 10

// copiesTried is how many further copies of a damaged blob are read.
const copiesTried = 3

// Locate looks up where blobs lie. out must be as long as ids. A blob that is not found has no pack, which is not an
// error here. The search covers new index segments, packs that no segment names, and a rebuilt index.
func (r *Repository) Locate(ctx context.Context, ids []format.ID, out []index.Found) error {
	_, err := r.index.Search(ctx, func(in index.Source) (bool, error) {
		if len(ids) >= prefetchFrom {
			r.index.Prefetch()
		}
		if err := in.Lookup(ids, out); err != nil {
			return false, fmt.Errorf("look up blobs: %w", err)
		}
		for i := range ids {
			if out[i].Pack == nil {
				return false, nil
			}
		}
		return true, nil
	})
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
	return r.load(ctx, id, func(ctx context.Context, id format.ID, at place) ([]byte, error) {
		if at.pack == p && (Span{at.loc.Offset, at.loc.Sealed}) == bad {
			return nil, why
		}
		return r.loadFrom(ctx, id, at)
	})
}

func (r *Repository) load(ctx context.Context, id format.ID,
	from func(context.Context, format.ID, place) ([]byte, error)) (
	[]byte, error,
) {
	at, err := r.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, err)
	}
	if r.index.Absent(at.pack.ID) { // then the pack is not searched for each blob that also lies elsewhere
		if other, findErr := r.refind(ctx, id, at); findErr == nil {
			at, from = other, r.loadFrom
		}
	}
	blob, err := from(ctx, id, at)
	if errors.Is(err, store.ErrNotExist) {
		// A prune may have moved the blob to another pack since the index was read. Or the pack is lost and an older
		// one also holds the blob.
		if other, findErr := r.refind(ctx, id, at); findErr == nil {
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
		return nil, fmt.Errorf("load blob %s: %w", id, &PackError{Pack: at.pack.ID, Err: err})
	}
	return blob, nil
}

// loadBesides tries other copies of a blob whose place at holds other bytes, or none.
func (r *Repository) loadBesides(ctx context.Context, id format.ID, at place, first error) ([]byte, error) {
	for range copiesTried {
		info, loc, found, err := r.Besides(ctx, id, at.pack.ID)
		if err != nil || !found {
			return nil, first
		}
		at = place{info, loc}
		if blob, err := r.loadFrom(ctx, id, at); err == nil {
			return blob, nil
		}
	}
	return nil, first
}

// Besides looks for a blob of a damaged pack in other packs that no mark names as damaged, also in those that no index
// segment names.
func (r *Repository) Besides(ctx context.Context, id, bad format.ID) (index.PackInfo, index.Loc, bool, error) {
	var at place
	found, err := r.index.Besides(ctx, bad, func(in index.Source) (ok bool, err error) {
		at, ok, err = lookUp(in, id)
		return ok && at.pack.ID != bad, err
	})
	return at.pack, at.loc, found, err
}

// LoadBlobAt is LoadBlob for a caller whose own index already has the location.
func (r *Repository) LoadBlobAt(ctx context.Context, id format.ID, p index.PackInfo, loc index.Loc) ([]byte, error) {
	blob, err := r.loadFrom(ctx, id, place{p, loc})
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, &PackError{Pack: p.ID, Err: err})
	}
	return blob, nil
}

func (r *Repository) loadFrom(ctx context.Context, id format.ID, at place) ([]byte, error) {
	raw, err := r.frames.Get(ctx, treecache.Key{Pack: at.pack.ID, Offset: at.loc.Offset}, func() ([]byte, error) {
		return r.loadFrame(ctx, at.pack, Span{at.loc.Offset, at.loc.Sealed})
	})
	if err != nil {
		return nil, err
	}
	end := uint64(at.loc.Skip) + uint64(at.loc.Len)
	if end > uint64(len(raw)) {
		return nil, fmt.Errorf("pack %s: frame at %d has %d bytes, the blob would end at %d: %w", at.pack.ID,
			at.loc.Offset, len(raw), end, format.ErrCorrupt)
	}
	blob := raw[at.loc.Skip:end:end]
	if r.blobID(blob) != id {
		return nil, fmt.Errorf("pack %s: frame at %d holds other bytes there: %w", at.pack.ID, at.loc.Offset,
			format.ErrCorrupt)
	}
	return blob, nil
}

// find looks a blob up in all sources.
func (r *Repository) find(ctx context.Context, id format.ID) (place, error) {
	var at place
	found, err := r.index.Search(ctx, func(in index.Source) (ok bool, err error) {
		at, ok, err = lookUp(in, id)
		return ok, err
	})
	switch {
	case err == nil && !found && !r.index.Complete():
		err = fmt.Errorf("%w: %w", index.ErrNoRoom, store.ErrNotExist)
	case err == nil && !found:
		err = fmt.Errorf("it is in no pack of this repository: %w", store.ErrNotExist)
	}
	return at, err
}

// refind looks for a blob at a location other than gone.
func (r *Repository) refind(ctx context.Context, id format.ID, gone place) (place, error) {
	var at place
	found, err := r.index.Elsewhere(ctx, func(in index.Source) (ok bool, err error) {
		at, ok, err = lookUp(in, id)
		return ok && at.pack.ID != gone.pack.ID, err
	})
	if err == nil && !found {
		err = store.ErrNotExist
	}
	return at, err
}

// Absent returns an error that wraps store.ErrNotExist if the target is known to lack a pack. LoadBlob finds the blobs
// of such a pack that also lie elsewhere. The absence is known only after LoadBlob has failed to read the pack.
func (r *Repository) Absent(pack format.ID) error {
	if !r.index.Absent(pack) {
		return nil
	}
	return fmt.Errorf("pack %s is lost: %w", pack, store.ErrNotExist)
}

func lookUp(in index.Source, id format.ID) (place, bool, error) {
	var found [1]index.Found
	if err := in.Lookup([]format.ID{id}, found[:]); err != nil {
		return place{}, false, fmt.Errorf("look up blob: %w", err)
	}
	if found[0].Pack == nil {
		return place{}, false, nil
	}
	return place{*found[0].Pack, found[0].Loc}, true, nil
}
