package browse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Mode selects what Stats counts.
type Mode string

// The modes.
const (
	RestoreSize     Mode = "restore-size"      // what a restore of each snapshot would write, summed; hard links once
	FilesByContents Mode = "files-by-contents" // different contents of files
	RawData         Mode = "raw-data"          // different blobs, and the frames they are stored in
	Unique          Mode = "unique"            // blobs that no other snapshot needs; prune.Unique counts them
	WholeRepository Mode = "repository"        // everything on the target, needed or not
)

// Statistics is the result of Stats. Fields that a mode does not count are zero.
type Statistics struct {
	Mode      Mode
	Snapshots uint64
	// files, of FilesByContents different contents; the bytes of RawData, Unique and WholeRepository are those of blobs
	snapshot.Content
	Blobs     uint64
	Stored    uint64 // sealed bytes of the frames that hold the blobs, which may hold others too; Unique: the share
	Kinds     []KindSize
	Data      PackSize // WholeRepository
	Trees     PackSize // likewise
	ChunkSize uint32   // likewise: the average that files are cut for
	Damaged   uint64   // index segments that cannot be read and are not part of Data and Trees
}

// KindSize is the files of one kind on the target.
type KindSize struct {
	Kind  store.Kind
	Files uint64
	Bytes uint64
}

// PackSize is the size of the packs of one kind according to the index. Packs that two segments name count twice.
type PackSize struct {
	Packs, Blobs uint64
	Raw, Sealed  uint64 // bytes of blobs, before compression and as they are stored
}

// Ratio returns how many bytes of blobs one stored byte holds, or 0 if there are none.
func (s *Statistics) Ratio() float64 {
	if s.Stored == 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Stored)
}

// Stats counts the snapshots with these trees, or for WholeRepository the files on the target. A directory that several
// snapshots share is loaded once. It remembers about 80 bytes for each different directory (RestoreSize), 40 for each
// directory and content (FilesByContents) or 40 for each blob (RawData).
func Stats(ctx context.Context, r *repo.Repository, mode Mode, trees []format.ID) (*Statistics, error) {
	s := &Statistics{Mode: mode, Snapshots: uint64(len(trees))}
	var err error
	switch mode {
	case RestoreSize:
		err = s.restoreSize(ctx, r.LoadBlob, trees)
	case FilesByContents:
		err = s.contents(ctx, r.LoadBlob, trees)
	case RawData:
		err = s.rawData(ctx, r, trees)
	case WholeRepository:
		err = s.repository(ctx, r)
	default:
		err = fmt.Errorf("mode %q: %w", mode, ErrMode)
	}
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	return s, nil
}

// sizer sums directories. A directory with hard links beneath it is summed again each time, because its sum depends on
// the links seen before.
type sizer struct {
	load  tree.Load
	known map[short]snapshot.Content
	links links
}

func (s *Statistics) restoreSize(ctx context.Context, load tree.Load, trees []format.ID) error {
	z := &sizer{load: load, known: make(map[short]snapshot.Content)}
	for _, id := range trees {
		z.links = links{scopes: []scope{{at: "/"}}}
		t, _, err := z.dir(ctx, id, "/")
		if err != nil {
			return err
		}
		s.Add(t)
	}
	return nil
}

func (z *sizer) dir(ctx context.Context, id format.ID, at string) (t snapshot.Content, linked bool, err error) {
	if t, ok := z.known[shorten(id)]; ok {
		return t, false, nil
	}
	err = walk(ctx, z.load, id, at, false, func(where string, n *tree.Node) error {
		again := z.links.first(where, n) != ""
		size := n.Size
		if again || !hasContent(n) {
			size = 0
		}
		t.Count(n.Type, size)
		if n.Type == tree.Dir {
			sub, l, err := z.dir(ctx, n.Subtree, where)
			linked = linked || l
			t.Add(sub)
			return err
		}
		linked = linked || n.Links > 1
		return nil
	})
	if err == nil && !linked {
		z.known[shorten(id)] = t
	}
	return t, linked, err
}

// once calls visit for the content of directories that were not visited before.
func once(ctx context.Context, load tree.Load, dir format.ID, at string, seen map[short]struct{}, visit Visit) error {
	if _, ok := seen[shorten(dir)]; ok {
		return nil
	}
	seen[shorten(dir)] = struct{}{}
	return walk(ctx, load, dir, at, false, func(where string, n *tree.Node) error {
		if err := visit(where, n); err != nil {
			return err
		}
		if n.Type != tree.Dir {
			return nil
		}
		return once(ctx, load, n.Subtree, where, seen, visit)
	})
}

func (s *Statistics) contents(ctx context.Context, load tree.Load, trees []format.ID) error {
	dirs, files := make(map[short]struct{}), make(map[short]struct{})
	for _, id := range trees {
		err := once(ctx, load, id, "/", dirs, func(_ string, n *tree.Node) error {
			if n.Type != tree.File || !hasContent(n) {
				return nil
			}
			key := contentKey(n)
			if _, ok := files[key]; !ok {
				files[key] = struct{}{}
				s.Bytes += n.Size
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.Files = uint64(len(files))
	return nil
}

// contentKey is equal for equal contents: the same bytes have the same chunks.
func contentKey(n *tree.Node) short {
	c := &n.Content
	p := binary.LittleEndian.AppendUint64(nil, n.Size)
	p = append(append(p, c.List[:]...), c.Inline...)
	for i := range c.Chunks {
		p = append(p, c.Chunks[i].ID[:]...)
		p = binary.LittleEndian.AppendUint64(p, c.Chunks[i].Len)
	}
	return shorten(seal.FileID(p))
}

// locator looks up blobs in batches and sums the frames they lie in.
type locator struct {
	r      *repo.Repository
	s      *Statistics
	ids    []format.ID
	out    []blobindex.Found
	blobs  map[short]struct{}
	frames map[frame]struct{}
}

// frame identifies a frame by its pack and its offset there.
type frame struct {
	pack   short
	offset uint32
}

const locateBatch = 4096

func (l *locator) add(ctx context.Context, id format.ID, size uint64) error {
	if _, ok := l.blobs[shorten(id)]; ok {
		return nil
	}
	l.blobs[shorten(id)] = struct{}{}
	l.s.Blobs++
	l.s.Bytes += size
	if l.ids = append(l.ids, id); len(l.ids) < locateBatch {
		return nil
	}
	return l.flush(ctx)
}

func (l *locator) flush(ctx context.Context) error {
	if err := l.r.Locate(ctx, l.ids, l.out[:len(l.ids)]); err != nil {
		return err
	}
	for i := range l.ids {
		f := &l.out[i]
		if f.Pack == nil {
			continue
		}
		key := frame{shorten(f.Pack.ID), f.Loc.Offset}
		if _, ok := l.frames[key]; !ok {
			l.frames[key] = struct{}{}
			l.s.Stored += uint64(f.Loc.Sealed)
		}
	}
	l.ids = l.ids[:0]
	return nil
}

func (s *Statistics) rawData(ctx context.Context, r *repo.Repository, trees []format.ID) error {
	l := &locator{r: r, s: s, out: make([]blobindex.Found, locateBatch), blobs: make(map[short]struct{}),
		frames: make(map[frame]struct{})}
	pages := func(ctx context.Context, id format.ID) ([]byte, error) { // counts the pages that it loads
		blob, err := r.LoadBlob(ctx, id)
		if err != nil {
			return nil, err
		}
		return blob, l.add(ctx, id, uint64(len(blob)))
	}
	dirs := make(map[short]struct{})
	for _, id := range trees {
		err := once(ctx, pages, id, "/", dirs, func(_ string, n *tree.Node) error {
			if n.Type != tree.File {
				return nil
			}
			if _, ok := l.blobs[shorten(n.Content.List)]; ok {
				return nil // the pages of a list of chunks that was read before
			}
			return eachChunk(ctx, pages, n, func(c tree.Chunk) error {
				if c.IsHole() {
					return nil
				}
				return l.add(ctx, c.ID, c.Len)
			})
		})
		if err != nil {
			return err
		}
	}
	return l.flush(ctx)
}

func (s *Statistics) repository(ctx context.Context, r *repo.Repository) error {
	s.ChunkSize = r.Config().Chunker.Avg
	var segments []object.Info
	for kind := range store.Kinds() {
		k := KindSize{Kind: kind}
		for file, err := range r.Store().List(ctx, kind) {
			if err != nil {
				return fmt.Errorf("list %s: %w", kind, err)
			}
			k.Files++
			k.Bytes += uint64(file.Size)
			if info, ok := object.InfoOf(file); ok && kind == store.Index {
				segments = append(segments, info)
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if kind == store.Snapshot {
			s.Snapshots = k.Files
		}
		s.Kinds = append(s.Kinds, k)
	}
	reader := object.Segments{Store: r.Store(), Keys: r.Keys()}
	if err := reader.Each(ctx, segments, s.segment); err != nil {
		return err
	}
	s.Blobs = s.Data.Blobs + s.Trees.Blobs
	s.Bytes = s.Data.Raw + s.Trees.Raw
	s.Stored = s.Data.Sealed + s.Trees.Sealed
	return nil
}

// segment adds the packs of one index segment. An unreadable segment is only counted, because check reports damage.
func (s *Statistics) segment(_ object.Info, seg *index.Segment, err error) error {
	switch {
	case object.IsDamage(err) || errors.Is(err, format.ErrUnsupported) || errors.Is(err, store.ErrNotExist):
		s.Damaged++
		return nil
	case err != nil:
		return fmt.Errorf("read index: %w", err)
	}
	for i := range seg.Packs {
		t := &seg.Packs[i].Table
		size := &s.Data
		if t.Kind == pack.Trees {
			size = &s.Trees
		}
		size.Packs++
		for j := range t.Frames {
			size.Blobs += uint64(len(t.Frames[j].Blobs))
			size.Raw += uint64(t.Frames[j].Raw)
			size.Sealed += uint64(t.Frames[j].Sealed)
		}
	}
	return nil
}
