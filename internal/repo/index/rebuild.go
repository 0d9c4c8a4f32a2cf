package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

const (
	// trailersAtOnce is how many trailers are read concurrently: they are small and far apart.
	trailersAtOnce = 4
	// rebuiltPacks and rebuiltBlobs limit the size of a rebuilt segment.
	rebuiltPacks = 64
	rebuiltBlobs = 256 << 10
)

// rebuild gathers packs into segments.
type rebuild struct {
	x          *Index
	supersedes []format.ID
	seg        index.Segment
	blobs      int
	whole      bool // leave out damaged packs
	keepHere   bool // store segments in the local cache only
	packs      int  // that were put into the index
}

// rebuildUnlessInDoubt is rebuildLocked where no mark is damaged. Otherwise a prune may be about to remove any pack
// that no segment names: none is used, and whole is false.
func (x *Index) rebuildUnlessInDoubt(ctx context.Context, supersedes []format.ID, mode syncMode) (whole bool,
	err error) {
	err = x.rebuildLocked(ctx, supersedes, mode)
	if errors.Is(err, marks.ErrDamaged) {
		x.note("packs that no index segment names are not used: %v", err)
		return false, nil
	}
	return true, err
}

// rebuildLocked expects a synchronised cache. The first new segment supersedes the given ones.
func (x *Index) rebuildLocked(ctx context.Context, supersedes []format.ID, mode syncMode) error {
	all, err := marks.All(ctx, x.st, x.keys)
	if err != nil {
		return err
	}
	// A pack that is marked as damaged may be the only one with something that a snapshot needs.
	files, err := x.unnamedPacks(ctx, marks.DoomedPacks(all))
	if err != nil {
		return err
	}
	return x.rebuildFrom(ctx, files, supersedes, mode)
}

// rebuildFrom puts packs into the index. The first new segment supersedes the given ones.
func (x *Index) rebuildFrom(ctx context.Context, files []object.Info, supersedes []format.ID, mode syncMode) error {
	b := &rebuild{x: x, supersedes: supersedes, keepHere: mode&localOnly != 0, whole: mode&wholeOnly != 0}
	err := object.InOrder(ctx, len(files), trailersAtOnce,
		func(ctx context.Context, i int) (OwnTable, error) {
			return ReadTable(ctx, x.st, x.keys, files[i].ID, files[i].Size)
		},
		func(i int, t OwnTable) error { return b.add(ctx, files[i], t) })
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("rebuild index: %w", err)
	}
	if b.packs > 0 {
		x.note("%d packs were put back into the index", b.packs)
	}
	return nil
}

// unnamedPacks lists the packs without a segment, but for some.
func (x *Index) unnamedPacks(ctx context.Context, without map[format.ID]bool) ([]object.Info, error) {
	files, err := object.List(ctx, x.st, store.Pack)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f object.Info) bool { return without[f.ID] })
	named := make(map[format.ID]bool)
	add := func(p PackInfo) error { named[p.ID] = true; return nil }
	err = x.cache.Packs(add)
	if fresh := x.fresh.ready.Load(); err == nil && fresh != nil {
		err = fresh.cache.Packs(add)
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(files, func(f object.Info) bool { return named[f.ID] }), nil
}

// OwnTable is the table of a pack as the pack itself has it.
type OwnTable struct {
	Table  pack.Table
	Walked bool  // the trailer could not be used, so the frames were read
	Lost   error // why frames are missing from Table; nil: none is
}

// ReadTable reads the table of a pack of that size from its trailer, or from its frames if the trailer is damaged. It
// returns only errors of the target: damage, or a pack that does not exist, is in the result.
func ReadTable(ctx context.Context, st store.Store, keys *seal.Keys, id format.ID, size int64) (OwnTable, error) {
	name := object.Named(store.Pack, id)
	read := func(off int64, p []byte) error { return object.ReadAt(ctx, st, name, off, p) }
	table, err := pack.OpenTable(keys, id, size, read)
	switch {
	case err == nil:
		return OwnTable{Table: table}, nil
	case errors.Is(err, store.ErrNotExist):
		return OwnTable{Lost: err}, nil // removed since it was listed
	case !errors.Is(err, format.ErrCorrupt):
		return OwnTable{}, fmt.Errorf("pack %s: %w", id, err)
	case size > pack.MaxPack:
		return OwnTable{Lost: err}, nil
	}
	data := make([]byte, size)
	if err := read(0, data); err != nil {
		if object.IsDamage(err) || errors.Is(err, store.ErrNotExist) {
			return OwnTable{Lost: err}, nil
		}
		return OwnTable{}, fmt.Errorf("pack %s: %w", id, err)
	}
	table, err = pack.Rebuild(keys, id, data)
	if err != nil && !errors.Is(err, format.ErrCorrupt) {
		return OwnTable{}, fmt.Errorf("pack %s: %w", id, err)
	}
	return OwnTable{Table: table, Walked: true, Lost: err}, nil
}

func (b *rebuild) add(ctx context.Context, f object.Info, t OwnTable) error {
	if errors.Is(t.Lost, store.ErrNotExist) {
		return nil
	}
	if t.Lost != nil && b.whole {
		b.x.note("pack %s is not whole, and no index names it: it is left unchanged", f.ID)
		return nil
	}
	if t.Lost != nil {
		b.x.note("pack %s is damaged, %d of its frames can be read: %v", f.ID, len(t.Table.Frames), t.Lost)
	}
	if len(t.Table.Frames) == 0 {
		return nil
	}
	b.packs++
	b.seg.Packs = append(b.seg.Packs, index.Pack{ID: f.ID, Size: uint64(f.Size), Table: t.Table})
	b.blobs += t.Table.Blobs()
	if len(b.seg.Packs) < rebuiltPacks && b.blobs < rebuiltBlobs {
		return nil
	}
	return b.flush(ctx)
}

// flush writes the gathered packs as one segment. On a read-only target the segment is merged into the cache only, and
// the next run finds it missing on the target and rebuilds it.
func (b *rebuild) flush(ctx context.Context) error {
	if len(b.seg.Packs) == 0 && len(b.supersedes) == 0 {
		return nil
	}
	b.seg.Supersedes = b.supersedes
	data, id := object.Seal(b.x.keys, store.Index, index.Encode(nil, &b.seg))
	if !b.keepHere {
		err := object.Put(ctx, b.x.st, object.Named(store.Index, id), data, true)
		switch {
		case errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrNoSpace):
			b.keepHere = true
			b.x.note("the rebuilt index is kept in the local cache only: %v", err)
		case err != nil:
			return fmt.Errorf("store index segment: %w", err)
		}
	}
	b.seg.Stored = int64(len(data))
	if err := b.x.cache.Merge(id, &b.seg, b.seg.Supersedes...); err != nil {
		return fmt.Errorf("merge index segment into the cache: %w", err)
	}
	b.seg, b.blobs, b.supersedes = index.Segment{}, 0, nil
	return nil
}
