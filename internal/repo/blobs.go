package repo

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo/blobindex"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// place is where a blob lies, good for reading it.
type place struct {
	pack hashcache.PackInfo
	loc  hashcache.Loc
}

// warmFrom is from how many blobs on the whole local index is read first: about as many as it has blocks for each MiB, so
// that fewer would ask for a small part of it.
const warmFrom = 1 << 10

// Locate looks up where blobs lie. out must be as long as ids. A blob that is not found after everything was tried (new
// index segments, packs that no segment names, the index made anew) has OK false; that is no error here.
func (r *Repository) Locate(ctx context.Context, ids []format.ID, out []hashcache.Found) error {
	_, err := r.index.Search(ctx, func(in blobindex.Places) (bool, error) {
		if len(ids) >= warmFrom {
			r.index.Warm()
		}
		if err := in.Lookup(ids, out); err != nil {
			return false, fmt.Errorf("look up blobs: %w", err)
		}
		for i := range ids {
			if !out[i].OK {
				return false, nil
			}
		}
		return true, nil
	})
	return err
}

// PackInfo returns what is known of a pack that Locate named.
func (r *Repository) PackInfo(n uint32) (hashcache.PackInfo, error) {
	info, err := r.index.Pack(n)
	if err != nil {
		return hashcache.PackInfo{}, fmt.Errorf("look up pack: %w", err)
	}
	return info, nil
}

// LoadBlob returns a blob, verified against its ID. It must not be changed: it shares memory with the frame it came
// from, which is kept for the next call. The error names pack and blob; it wraps store.ErrNotExist if the blob or its
// pack is nowhere, and format.ErrCorrupt if the frame is damaged.
func (r *Repository) LoadBlob(ctx context.Context, id format.ID) ([]byte, error) {
	return r.load(ctx, id, r.loadFrom)
}

// LoadBlobBut is LoadBlob for one who has found that the frame bad of pack p cannot be opened, and why: it is not read again.
func (r *Repository) LoadBlobBut(ctx context.Context, id format.ID, p hashcache.PackInfo, bad Span, why error) ([]byte, error) {
	return r.load(ctx, id, func(ctx context.Context, id format.ID, at place) ([]byte, error) {
		if at.pack == p && (Span{at.loc.Offset, at.loc.Sealed}) == bad {
			return nil, why
		}
		return r.loadFrom(ctx, id, at)
	})
}

func (r *Repository) load(ctx context.Context, id format.ID, from func(context.Context, format.ID, place) ([]byte, error)) (
	[]byte, error,
) {
	at, err := r.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, err)
	}
	if r.index.Absent(at.pack.ID) { // known: it is not looked for with each blob that lies elsewhere too
		if other, findErr := r.refind(ctx, id, at); findErr == nil {
			at, from = other, r.loadFrom
		}
	}
	blob, err := from(ctx, id, at)
	if errors.Is(err, store.ErrNotExist) {
		// A prune may have moved the blob to another pack since the index was read, or the pack is lost and an older one
		// holds the blob too.
		if other, findErr := r.refind(ctx, id, at); findErr == nil {
			at = other
			blob, err = r.loadFrom(ctx, id, at)
		}
	}
	if err != nil {
		blob, err = r.loadSecond(ctx, id, at, err)
	}
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, &PackError{Pack: at.pack.ID, Err: err})
	}
	return blob, nil
}

// LoadBlobAt is LoadBlob for one who knows from an index of his own where the blob lies.
func (r *Repository) LoadBlobAt(ctx context.Context, id format.ID, p hashcache.PackInfo, loc hashcache.Loc) ([]byte, error) {
	blob, err := r.loadFrom(ctx, id, place{p, loc})
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", id, &PackError{Pack: p.ID, Err: err})
	}
	return blob, nil
}

func (r *Repository) loadFrom(ctx context.Context, id format.ID, at place) ([]byte, error) {
	raw, err := r.frames.get(ctx, frameKey{at.pack.ID, at.loc.Offset}, func() ([]byte, error) {
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

// find looks a blob up, trying everything.
func (r *Repository) find(ctx context.Context, id format.ID) (place, error) {
	var at place
	found, err := r.index.Search(ctx, func(in blobindex.Places) (ok bool, err error) {
		at, ok, err = lookUp(in, id)
		return ok, err
	})
	switch {
	case err == nil && !found && !r.index.Complete():
		err = fmt.Errorf("%w: %w", blobindex.ErrNoRoom, store.ErrNotExist)
	case err == nil && !found:
		err = fmt.Errorf("it is in no pack of this repository: %w", store.ErrNotExist)
	}
	return at, err
}

// refind looks for a blob somewhere else than at a place that is gone.
func (r *Repository) refind(ctx context.Context, id format.ID, gone place) (place, error) {
	var at place
	found, err := r.index.Elsewhere(ctx, func(in blobindex.Places) (ok bool, err error) {
		at, ok, err = lookUp(in, id)
		return ok && at.pack.ID != gone.pack.ID, err
	})
	if err == nil && !found {
		err = store.ErrNotExist
	}
	return at, err
}

// Absent returns an error that wraps store.ErrNotExist if it is known of a pack that the target does not hold it, so that it
// need not be looked for: LoadBlob finds out what of it lies elsewhere. It is not known before LoadBlob has failed to read it.
func (r *Repository) Absent(pack format.ID) error {
	if !r.index.Absent(pack) {
		return nil
	}
	return fmt.Errorf("pack %s is lost: %w", pack, store.ErrNotExist)
}

func lookUp(in blobindex.Places, id format.ID) (place, bool, error) {
	var found [1]hashcache.Found
	if err := in.Lookup([]format.ID{id}, found[:]); err != nil {
		return place{}, false, fmt.Errorf("look up blob: %w", err)
	}
	if !found[0].OK {
		return place{}, false, nil
	}
	info, err := in.Pack(found[0].Loc.Pack)
	if errors.Is(err, hashcache.ErrNoPack) {
		return place{}, false, nil // a place that cannot be is none
	}
	if err != nil {
		return place{}, false, fmt.Errorf("look up pack: %w", err)
	}
	return place{info, found[0].Loc}, true, nil
}
