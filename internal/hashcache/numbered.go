package hashcache

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/hashcache/census"
	"github.com/tidemark-backup/tidemark/internal/hashcache/runs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// remembered is how many packs a Numbered remembers: more than there are goroutines that read trees.
const remembered = 64

// Numbered is a temporary index of blobs that is filled first and asked afterwards. Each blob has a number, which a lookup
// answers in the place of the pack: so a set of blobs can be a bit for each. It is exact, as different blobs have different
// numbers, and a blob has one.
//
// In memory are 16 bytes for each pack, and what package census keeps. Questions are safe for concurrent use.
type Numbered struct {
	file  gated
	blobs *census.Index
	spans []span // ascending
	last  [remembered]atomic.Pointer[lookedUp]
}

// span is the numbers of a pack, up to the next one.
type span struct {
	first uint64
	info  int64 // where in the file the pack is described
}

// lookedUp is one pack.
type lookedUp struct {
	span int
	info PackInfo
}

// gated is a temporary file behind a door.
type gated struct {
	door Door
	f    *os.File
}

// ReadAt reads into all of p.
func (g gated) ReadAt(p []byte, off int64) (done int, err error) {
	for done < len(p) && err == nil {
		n := 0
		n, err = g.door.do(iopolicy.Op{Kind: iopolicy.Read, Bytes: len(p) - done}, func(bound int) (int, error) {
			part := p[done:]
			if bound > 0 {
				part = part[:min(bound, len(part))]
			}
			return g.f.ReadAt(part, off+int64(done))
		})
		done += n
	}
	return done, err
}

// WriteAt writes all of p.
func (g gated) WriteAt(p []byte, off int64) (int, error) {
	return (&appender{g.door, g.f, off}).Write(p)
}

// OpenNumbered makes an empty index in folder dir that nobody else sees and that is gone when it is closed, or when the
// process ends in whatever way: its file has no name. The folder is made if it is missing.
func OpenNumbered(dir string, door Door) (*Numbered, error) {
	f, err := door.unnamed(dir, "index-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("make temporary index: %w", err)
	}
	file := gated{door, f}
	return &Numbered{file: file, blobs: census.New(file)}, nil
}

// unnamed makes a file and takes its name away.
func (d Door) unnamed(dir, pattern string) (f *os.File, err error) {
	err = d.look(func() error {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if f, err = os.CreateTemp(dir, pattern); err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		return nil
	})
	return f, err
}

// Close releases the file.
func (x *Numbered) Close() error { return x.file.f.Close() }

// Merge adds packs. The blobs of each have the numbers from first on, in the order of its table; first must have one for
// each pack, above all numbers before. A blob that is known already gets its new place. It is for one goroutine, and comes
// before all questions.
func (x *Numbered) Merge(packs []index.Pack, first []uint64) error {
	for i := range packs {
		p := &packs[i]
		if first[i]+uint64(blobsOf(p)) > math.MaxUint32 {
			return fmt.Errorf("more than %d blobs: %w", uint32(math.MaxUint32), ErrTooMany)
		}
		at, err := x.blobs.Append(appendPack(nil, &PackInfo{ID: p.ID, Salt: p.Table.Salt, Kind: p.Table.Kind, Size: p.Size}))
		if err != nil {
			return fmt.Errorf("note pack: %w", err)
		}
		x.spans = append(x.spans, span{first[i], at})
		loc := Loc{Pack: uint32(first[i])}
		for _, f := range p.Table.Frames {
			loc.Offset, loc.Sealed, loc.Skip = f.Offset, f.Sealed, 0
			for _, b := range f.Blobs {
				loc.Len = b.Len
				if err := x.blobs.Add(&runs.Record{ID: b.ID, Loc: loc}); err != nil {
					return err
				}
				loc.Skip += b.Len
				loc.Pack++
			}
		}
	}
	return nil
}

func blobsOf(p *index.Pack) (n int) {
	for i := range p.Table.Frames {
		n += len(p.Table.Frames[i].Blobs)
	}
	return n
}

// Lookup finds out where blobs lie; out must be as long as ids. The Pack of each place is the number of the blob.
func (x *Numbered) Lookup(ids []format.ID, out []Found) error { return x.blobs.Lookup(ids, out) }

// Replaced returns how many blobs have got a new place since they were merged first.
func (x *Numbered) Replaced() (uint64, error) { return x.blobs.Replaced() }

// PackOf returns the pack in which the blob with that number lies.
func (x *Numbered) PackOf(number uint32) (PackInfo, error) {
	i := sort.Search(len(x.spans), func(i int) bool { return x.spans[i].first > uint64(number) }) - 1
	if i < 0 {
		return PackInfo{}, fmt.Errorf("blob number %d: %w", number, ErrNoPack)
	}
	slot := &x.last[i%remembered]
	if had := slot.Load(); had != nil && had.span == i {
		return had.info, nil
	}
	var p [packSize]byte
	if _, err := x.file.ReadAt(p[:], x.spans[i].info); err != nil {
		return PackInfo{}, fmt.Errorf("read temporary index: %w", err)
	}
	info := parsePack(p[:])
	slot.Store(&lookedUp{i, info})
	return info, nil
}
