package blobindex

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
)

const (
	// trailersAtOnce is how many packs are looked at together: their trailers are small and far apart.
	trailersAtOnce = 4
	// rebuiltPacks and rebuiltBlobs end a rebuilt segment, as a session would.
	rebuiltPacks = 64
	rebuiltBlobs = 256 << 10
)

// Rebuilt says what Rebuild found.
type Rebuilt struct {
	Packs   int         // read and put into the index
	Walked  int         // of those, packs whose trailer was damaged, so that their frames were read one by one
	Damaged []format.ID // packs in which something is lost
}

// rebuild gathers packs into segments.
type rebuild struct {
	x          *Index
	cache      *layers
	supersedes []format.ID
	seg        index.Segment
	blobs      int
	whole      bool // leave out packs of which something is lost
	keepHere   bool // write no segment to the target, keep what was learned in the local cache alone
	result     Rebuilt
}

type packFile struct {
	id   format.ID
	size int64
}

// rebuildLocked expects a cache that is up to date. The first new segment supersedes the given ones.
func (x *Index) rebuildLocked(ctx context.Context, supersedes []format.ID, mode syncMode) (Rebuilt, error) {
	files, err := x.unnamedPacks(ctx)
	if err != nil {
		return Rebuilt{}, err
	}
	b := &rebuild{x: x, cache: x.layers, supersedes: supersedes, keepHere: mode&localOnly != 0, whole: mode&wholeOnly != 0}
	err = object.InOrder(ctx, len(files), trailersAtOnce,
		func(ctx context.Context, i int) (readTable, error) { return x.readTable(ctx, files[i]) },
		func(i int, t readTable) error { return b.add(ctx, files[i], t) })
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil {
		return b.result, fmt.Errorf("rebuild index: %w", err)
	}
	if b.result.Packs > 0 {
		x.note("%d packs were put back into the index", b.result.Packs)
	}
	return b.result, nil
}

// unnamedPacks lists the packs that no segment names and no mark condemns.
func (x *Index) unnamedPacks(ctx context.Context) ([]packFile, error) {
	condemned, err := marks.Condemned(ctx, x.st, x.keys)
	if err != nil {
		return nil, err
	}
	var files []packFile
	for info, err := range x.st.List(ctx, store.Pack) {
		if err != nil {
			return nil, fmt.Errorf("list packs: %w", err)
		}
		id, err := format.ParseID(info.Name.ID)
		if err != nil {
			continue // not a name we give
		}
		if _, ok := condemned[id]; !ok {
			files = append(files, packFile{id, info.Size})
		}
	}
	slices.SortFunc(files, func(a, b packFile) int { return a.id.Compare(b.id) })
	named := make(map[format.ID]bool)
	note := func(id format.ID) error { named[id] = true; return nil }
	err = x.layers.packs(note)
	if err == nil && x.second.index != nil {
		err = x.second.index.layers.packs(note)
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(files, func(f packFile) bool { return named[f.id] }), nil
}

// readTable is the table of a pack, and what was wrong on the way to it.
type readTable struct {
	table  pack.Table
	walked bool  // the trailer could not be used
	err    error // something of the pack is lost; the table holds the rest
}

// readTable reads a pack's trailer or, failing that, all its frames. Only an error of the target is returned as such.
func (x *Index) readTable(ctx context.Context, f packFile) (readTable, error) {
	name := object.Named(store.Pack, f.id)
	read := func(off int64, p []byte) error { return object.ReadAt(ctx, x.st, name, off, p) }
	table, err := pack.OpenTable(x.keys, f.size, read)
	switch {
	case err == nil:
		return readTable{table: table}, nil
	case errors.Is(err, store.ErrNotExist):
		return readTable{err: err}, nil // removed since it was listed
	case !errors.Is(err, format.ErrCorrupt):
		return readTable{}, fmt.Errorf("pack %s: %w", f.id, err)
	case f.size > pack.MaxPack:
		return readTable{err: err}, nil
	}
	data := make([]byte, f.size)
	if err := read(0, data); err != nil {
		if object.IsDamage(err) || errors.Is(err, store.ErrNotExist) {
			return readTable{err: err}, nil
		}
		return readTable{}, fmt.Errorf("pack %s: %w", f.id, err)
	}
	table, err = pack.Rebuild(x.keys, data)
	if err != nil && !errors.Is(err, format.ErrCorrupt) {
		return readTable{}, fmt.Errorf("pack %s: %w", f.id, err)
	}
	return readTable{table: table, walked: true, err: err}, nil
}

func (b *rebuild) add(ctx context.Context, f packFile, t readTable) error {
	if errors.Is(t.err, store.ErrNotExist) {
		return nil
	}
	if t.err != nil && b.whole {
		b.x.note("pack %s is not whole, and no index names it: it is left as it is", f.id)
		return nil
	}
	if t.err != nil {
		b.result.Damaged = append(b.result.Damaged, f.id)
		b.x.note("pack %s is damaged, %d of its frames can be read: %v", f.id, len(t.table.Frames), t.err)
	}
	if len(t.table.Frames) == 0 {
		return nil
	}
	b.result.Packs++
	if t.walked {
		b.result.Walked++
	}
	b.seg.Packs = append(b.seg.Packs, index.Pack{ID: f.id, Size: uint64(f.size), Table: t.table})
	for i := range t.table.Frames {
		b.blobs += len(t.table.Frames[i].Blobs)
	}
	if len(b.seg.Packs) < rebuiltPacks && b.blobs < rebuiltBlobs {
		return nil
	}
	return b.flush(ctx)
}

// flush writes the gathered packs as one segment. A target that is read-only keeps nobody from reading: then the
// segment is merged locally alone, and the next run, which finds it missing on the target, makes it anew.
func (b *rebuild) flush(ctx context.Context) error {
	if len(b.seg.Packs) == 0 && len(b.supersedes) == 0 {
		return nil
	}
	b.seg.Supersedes = b.supersedes
	data, id, err := object.Seal(b.x.keys, store.Index, index.Encode(nil, &b.seg))
	if err != nil {
		return fmt.Errorf("seal index segment: %w", err)
	}
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
	if err := b.cache.Merge(id, &b.seg); err != nil {
		return fmt.Errorf("merge index segment into the cache: %w", err)
	}
	for _, old := range b.seg.Supersedes {
		if err := b.cache.Merge(old, &index.Segment{}); err != nil {
			return fmt.Errorf("note superseded index segment: %w", err)
		}
	}
	b.seg, b.blobs, b.supersedes = index.Segment{}, 0, nil
	return nil
}
