package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// packFile is one pack on the target. All of them are in memory: 56 bytes for each 16 MiB stored.
type packFile struct {
	id     format.ID
	size   int64
	named  bool // by an index segment
	chosen bool // its data is read

	proven uint32 // when it was last read back intact, in seconds since 1970; 0: never
	turn   uint32 // number of the check that proved it, or that listed it first
}

// packSet is the packs on the target by ascending ID.
type packSet []packFile

func (s packSet) find(id format.ID) *packFile {
	// No element is copied, since readers of packs write proven and turn at the same time.
	i, ok := sort.Find(len(s), func(i int) int { return id.Compare(s[i].id) })
	if !ok {
		return nil
	}
	return &s[i]
}

func (c *checker) listIndex(ctx context.Context) error {
	files, err := c.list(ctx, store.Index)
	c.segments = nil
	for _, file := range files {
		if info, ok := object.InfoOf(file); ok {
			c.segments = append(c.segments, info)
		}
	}
	c.indexed = idsOf(c.segments)
	return err
}

func (c *checker) listPacks(ctx context.Context) error {
	infos, err := c.list(ctx, store.Pack)
	if err != nil {
		return err
	}
	c.packs = make(packSet, len(infos))
	for i, info := range infos {
		c.packs[i] = packFile{id: idOf(info), size: info.Size}
	}
	c.found.Count(func(r *Result) { r.Packs = uint64(len(infos)) })
	c.found.Expect(uint64(len(infos)+len(c.segments)), 0)
	return nil
}

// checkIndex compares the index segments with the packs and fills the temporary index.
//
// Superseded segments do not count: they name packs that are gone. The order of segments does not show which are
// superseded, because clocks may have been set back. The segments are therefore read twice: the first round collects
// the superseded.
func (c *checker) checkIndex(ctx context.Context) error {
	reader := object.Segments{Store: c.st, Keys: c.keys}
	any := func(object.Info, *index.Segment, error) error { return nil }
	var standing object.Standing
	if err := reader.Update(ctx, &standing, c.segments, unlessFatal(ctx, any)); err != nil {
		return err
	}
	for _, info := range standing.Superseded {
		if standing.Bad[info.ID] != nil {
			c.found.Note("index segment %s is damaged, and no longer needed", info.ID.Short())
		}
	}
	for _, info := range standing.Counting {
		if err := standing.Bad[info.ID]; err != nil {
			c.found.Add(Index, info.ID, "index segment "+info.ID.String(), err)
		}
	}
	c.segments = slices.DeleteFunc(standing.Counting, func(i object.Info) bool { return standing.Bad[i.ID] != nil })
	return c.eachSegment(ctx, func(info object.Info, seg *index.Segment, err error) error {
		if err != nil { // the first round could read it
			c.found.Add(Index, info.ID, "index segment "+info.ID.String(), err)
			return nil
		}
		c.found.Whole()
		return c.checkSegment(ctx, seg)
	})
}

// eachSegment reads the segments that count one after the other, oldest first. A segment that is gone was replaced
// meanwhile.
func (c *checker) eachSegment(ctx context.Context, visit object.VisitSegment) error {
	reader := object.Segments{Store: c.st, Keys: c.keys}
	return reader.Each(ctx, c.segments, unlessFatal(ctx, visit))
}

// unlessFatal ends the reading of segments with an error that says nothing about them.
func unlessFatal(ctx context.Context, visit object.VisitSegment) object.VisitSegment {
	return func(info object.Info, seg *index.Segment, err error) error {
		if err != nil && fatal(ctx, err) {
			return err
		}
		return visit(info, seg, err)
	}
}

// checkSegment compares the packs of one segment with the target.
func (c *checker) checkSegment(ctx context.Context, seg *index.Segment) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.opt.Parallel)
	for i := range seg.Packs {
		p := &seg.Packs[i]
		file, rank := c.packs.find(p.ID), named
		if c.marked[p.ID] { // a blob that is also in another pack counts there
			rank = marked
		}
		if file == nil || uint64(file.size) != p.Size {
			rank = gone
		}
		if _, err := c.index.Add(rank, 0, p); err != nil {
			return errors.Join(err, c.wait(g))
		}
		if file == nil {
			c.found.MissPack(p.ID, errGone)
			continue
		}
		if file.named { // another segment names it too, and it was checked
			continue
		}
		file.named = true
		if uint64(file.size) != p.Size {
			c.found.LosePack(p.ID, uint64(file.size), fmt.Errorf("it has %d bytes, the index says %d", file.size, p.Size))
			continue
		}
		c.start(ctx, g, func(ctx context.Context) error { return c.checkTable(ctx, p) })
	}
	return c.wait(g)
}

// checkTable reads the table at the end of a pack and compares it with the index.
func (c *checker) checkTable(ctx context.Context, p *index.Pack) error {
	t, err := pack.OpenTable(c.keys, p.ID, int64(p.Size), c.readAt(ctx, p.ID))
	if err == nil && !sameTable(&t, &p.Table) {
		err = errTable
	}
	return c.found.Judge(ctx, Pack, p.ID, "pack "+p.ID.String(), err)
}

func (c *checker) readAt(ctx context.Context, id format.ID) func(off int64, p []byte) error {
	name := object.Named(store.Pack, id)
	return func(off int64, p []byte) error { return object.ReadAt(ctx, c.st, name, off, p) }
}

func sameTable(a, b *pack.Table) bool {
	return a.Kind == b.Kind && a.Salt == b.Salt &&
		bytes.Equal(pack.AppendFrames(nil, a.Frames), pack.AppendFrames(nil, b.Frames))
}

// checkStrays checks packs that no index segment names, left by an interrupted run or written by a running one. They
// are no damage unless a snapshot needs them, which the walk determines.
func (c *checker) checkStrays(ctx context.Context) error {
	count, size := 0, int64(0)
	for i := range c.packs {
		f := &c.packs[i]
		if f.named {
			continue
		}
		t, err := c.strayTable(ctx, f)
		if errors.Is(err, store.ErrNotExist) {
			continue // removed by a concurrent prune
		}
		count++
		size += f.size
		if err := c.found.Judge(ctx, Pack, f.id, "pack "+f.id.String(), err); err != nil {
			return err
		}
		rank := stray
		if c.doomed[f.id] {
			rank = doomed
		}
		if len(t.Frames) > 0 {
			if _, err := c.index.Add(rank, 0, &index.Pack{ID: f.id, Size: uint64(f.size), Table: t}); err != nil {
				return err
			}
		}
	}
	if count > 0 {
		c.found.Note("packs that no index segment names, left by a killed run or being written now: %d, %d bytes",
			count, size)
	}
	return nil
}

// strayTable reads the table of a pack, or rebuilds it from the frames. Beside an error it returns the readable part.
func (c *checker) strayTable(ctx context.Context, f *packFile) (pack.Table, error) {
	read := c.readAt(ctx, f.id)
	t, err := pack.OpenTable(c.keys, f.id, f.size, read)
	if err == nil || !errors.Is(err, format.ErrCorrupt) || f.size > pack.MaxPack {
		return t, err
	}
	data := make([]byte, f.size)
	if readErr := read(0, data); readErr != nil {
		return t, readErr
	}
	t, _ = pack.Rebuild(c.keys, f.id, data) // err already covers what is missing in it
	return t, err
}
