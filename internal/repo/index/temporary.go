package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/extsort"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

const (
	// recordSize is an ID, a rank of 8 bits, and five numbers of 32 bits.
	recordSize = format.IDSize + 1 + locSize
	// keySize is the key of a record while it is sorted: its ID, and the rank and the order of its pack.
	keySize = format.IDSize + 1 + 4
	// runRecords is how many records are sorted in memory: 4 MiB with their order.
	runRecords = 64 << 10
	// recentPacks is how many packs a Temporary caches: more than there are goroutines that read trees.
	recentPacks = 64
)

// Temporary is a blob index for one check or prune: it is filled first and queried afterwards. Packs are added under
// ranks: a blob counts in a pack of the lowest rank, of these in that of the lowest order, and of equal ones in that
// which was added last. All blobs are numbered consecutively, so that a set of blobs is a bitset.
//
// Records are sorted externally. The first lookup merges the runs into one list of pages; the prefix of the first ID
// of each page stays in memory, a tenth of a byte per blob, beside 16 bytes per pack. A lookup reads one page with
// pread, so nothing of the file is resident. Filling takes a third of the time of a Cache. Lookups are safe for
// concurrent use.
type Temporary struct {
	file   tempFile
	packs  []packSpan                            // ascending
	last   [recentPacks]atomic.Pointer[numbered] // packs by their place in packs modulo the length
	total  uint64                                // blobs that were added
	lowest uint64                                // of them, blobs of rank 0
	runs   *extsort.Runs
	buffer extsort.Buffer // the next run
	most   int            // records of a run: runRecords, which tests reduce

	once      sync.Once // the first lookup
	queried   bool
	err       error // of merging
	list      cachefile.Pages
	records   cachefile.Section // of the list
	different uint64            // of them, records of rank 0
	prefixes  []uint64          // of the first ID of each page
	scratch   sync.Pool
}

// Place is where a blob lies in a Temporary. The zero Place means that no pack holds it.
type Place struct {
	Loc
	number uint32 // of the blob
	rank   int8   // of the pack, from 1
}

// Lost reports whether no pack holds the blob.
func (at *Place) Lost() bool { return at.rank == 0 }

// Rank returns the rank under which the pack was added.
func (at *Place) Rank() int { return int(at.rank) - 1 }

// Number returns the number of the blob.
func (at *Place) Number() uint64 { return uint64(at.number) }

// packSpan is the first number of a pack. Its numbers end where those of the next begin.
type packSpan struct {
	first uint64
	info  int64 // offset of the encoded PackInfo in the file
}

// tempFile holds a Temporary.
type tempFile interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Close() error
}

// newTemporary returns an empty index in an empty file, which disappears when the index is closed.
func newTemporary(f tempFile) *Temporary {
	x := &Temporary{file: f, runs: extsort.New(f, f, keySize), most: runRecords}
	x.buffer.KeySize = keySize
	x.scratch.New = func() any { return new(lookup) }
	return x
}

// Close releases the file and the memory.
func (x *Temporary) Close() error {
	x.packs, x.prefixes, x.records.Count = nil, nil, 0
	if err := x.file.Close(); err != nil {
		return fmt.Errorf("remove the temporary index: %w", err)
	}
	return nil
}

// Blobs returns how many numbers were assigned. All numbers are below it.
func (x *Temporary) Blobs() uint64 { return x.total }

// Add adds a pack, and returns the number of its first blob. The others are numbered in the order of its table. It is
// for one goroutine and precedes all lookups.
func (x *Temporary) Add(rank int, order uint32, p *index.Pack) (first uint64, err error) {
	if err := x.add(rank, order, p); err != nil {
		return 0, fmt.Errorf("fill the temporary index: %w", err)
	}
	first = x.packs[len(x.packs)-1].first
	if rank == 0 {
		x.lowest += x.total - first
	}
	return first, nil
}

func (x *Temporary) add(rank int, order uint32, p *index.Pack) error {
	info := infoOf(p)
	at, err := x.runs.Append(appendPack(nil, &info))
	if err != nil {
		return fmt.Errorf("record pack: %w", err)
	}
	x.packs = append(x.packs, packSpan{x.total, at})
	return EachBlob(&p.Table, func(id format.ID, loc Loc) error {
		if x.total == math.MaxUint32 {
			return fmt.Errorf("more than %d blobs: %w", uint32(math.MaxUint32), ErrTooMany)
		}
		x.total++
		return x.put(rank, order, id, loc, uint32(x.total-1))
	})
}

// Replaced returns how many further locations the blobs of rank 0 have in packs of rank 0. It ends the filling.
func (x *Temporary) Replaced() (uint64, error) {
	if err := x.merge(); err != nil {
		return 0, fmt.Errorf("look up blobs: %w", err)
	}
	return x.lowest - x.different, nil
}

// Found returns a place with its pack; zero if the blob is lost.
func (x *Temporary) Found(at *Place) (Found, error) {
	if at.Lost() {
		return Found{}, nil
	}
	i := sort.Search(len(x.packs), func(i int) bool { return x.packs[i].first > at.Number() }) - 1
	slot := &x.last[i%recentPacks]
	if had := slot.Load(); had != nil && had.number == uint32(i) {
		return Found{at.Loc, &had.info}, nil
	}
	var p [packSize]byte
	if _, err := x.file.ReadAt(p[:], x.packs[i].info); err != nil {
		return Found{}, fmt.Errorf("look up pack: read temporary index: %w", err)
	}
	made := &numbered{uint32(i), parsePack(p[:])}
	slot.Store(made)
	return Found{at.Loc, &made.info}, nil
}

func (x *Temporary) put(rank int, order uint32, id format.ID, loc Loc, number uint32) error {
	if x.queried {
		return errFull
	}
	var key [keySize]byte
	copy(key[:], id[:])
	key[format.IDSize] = byte(rank)
	binary.BigEndian.PutUint32(key[format.IDSize+1:], order)
	var value [locSize]byte
	x.buffer.Add(key[:], appendLoc(value[:0], loc, number))
	if x.buffer.Len() < x.most {
		return nil
	}
	if err := x.runs.Write(&x.buffer); err != nil {
		return fmt.Errorf("write blob index: %w", err)
	}
	x.buffer.Reset()
	return nil
}

// parsePlace decodes what follows the ID in a record.
func parsePlace(p []byte) Place {
	loc, number := parseLoc(p[1:])
	return Place{loc, number, int8(p[0]) + 1}
}

// merge writes the list, once.
func (x *Temporary) merge() error {
	x.once.Do(func() {
		x.queried = true
		x.err = x.writeList()
		x.buffer = extsort.Buffer{}
	})
	return x.err
}

// writeList merges the runs into pages behind them. Of the records of an ID, the first has the lowest rank and, of
// these, order.
func (x *Temporary) writeList() error {
	m, err := extsort.Merge(x.runs.Sources(&x.buffer)...)
	if err != nil {
		return err
	}
	const size = cachefile.PageSize
	x.list = cachefile.Pages{Private: true, Read: x.file.ReadAt, Base: (x.runs.End() + size - 1) / size * size}
	w := cachefile.NewPageWriter(x.file, x.list.Base, 0, 0)
	x.records = cachefile.Section{Size: recordSize}
	entry := make([]byte, 0, recordSize)
	for w.Err == nil {
		key, value, ok, err := m.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if x.records.Count > 0 && bytes.Equal(key[:format.IDSize], entry[:format.IDSize]) {
			continue
		}
		if entry = append(append(entry[:0], key[:format.IDSize+1]...), value...); w.Add(entry) {
			x.prefixes = append(x.prefixes, cachefile.Prefix(key))
		}
		x.records.Count++
		if key[format.IDSize] == 0 {
			x.different++
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write blob index: %w", err)
	}
	return nil
}

// Locate returns the places of blobs, over those in buf.
func (x *Temporary) Locate(buf []Place, ids []format.ID) ([]Place, error) {
	out := slices.Grow(buf[:0], len(ids))[:len(ids)]
	clear(out)
	if err := x.lookup(ids, out); err != nil {
		return nil, fmt.Errorf("look up blobs: %w", err)
	}
	return out, nil
}

// LocateOne returns the place of one blob.
func (x *Temporary) LocateOne(id format.ID) (Place, error) {
	var one [1]Place
	_, err := x.Locate(one[:], []format.ID{id})
	return one[0], err
}

func (x *Temporary) lookup(ids []format.ID, out []Place) error {
	if err := x.merge(); err != nil {
		return err
	}
	q := x.scratch.Get().(*lookup)
	defer x.scratch.Put(q)
	q.order = q.order[:0]
	for i := range ids {
		q.want(&ids[i], i)
	}
	q.sort()
	for _, w := range q.order {
		i := w.at
		at, err := x.list.Find(&q.blobs, &x.records, x.prefixes, ids[i][:])
		if err != nil {
			return fmt.Errorf("read blob index: %w", err)
		}
		if out[i] = (Place{}); at != nil {
			out[i] = parsePlace(at)
		}
	}
	return nil
}

// Each visits each blob once, by ascending ID, with its number. It ends the filling.
func (x *Temporary) Each(visit func(id format.ID, number uint64) error) error {
	err := x.merge()
	if err == nil {
		err = x.list.Each(&x.records, 0, x.records.Count, func(entry []byte) error {
			at := parsePlace(entry[format.IDSize:])
			return visit(format.ID(entry[:format.IDSize]), at.Number())
		})
	}
	if err != nil {
		return fmt.Errorf("read the temporary index: %w", err)
	}
	return nil
}
