package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// head is the first page of a run. It is written last: without it a run cannot be opened.
type head struct {
	Magic, Repo [16]byte
	Blobs       uint64
	Packs       uint32
	Segments    uint32
	Filter      uint32 // blocks; 0: none
	Seed        uint32 // of the checksums of the other pages: random
}

// magic begins a run of this version.
const magic = "tidemark run 1\r\n"

// sections are the parts of a run, in their order in the file.
type sections struct {
	packs    cachefile.Section // PackInfo by number
	blobs    cachefile.Section // ID, number of the pack, Loc, by ascending ID
	prefixes cachefile.Section // of the first ID of each page of blobs
	filter   cachefile.Section // blocks
	segments cachefile.Section // ID, and bytes of the file; 0: unknown, or the segment was superseded
}

const (
	blobSize    = format.IDSize + locSize
	segmentSize = format.IDSize + 8
)

func (h *head) sections() (s sections) {
	s.packs = cachefile.Section{First: 1, Size: packSize, Count: uint64(h.Packs)}
	s.blobs = s.packs.Next(blobSize, h.Blobs)
	s.prefixes = s.blobs.Next(8, uint64(s.blobs.Pages()))
	s.filter = s.prefixes.Next(filterBlock, uint64(h.Filter))
	s.segments = s.filter.Next(segmentSize, uint64(h.Segments))
	return s
}

// run is an open run: an immutable file with sorted blobs, their packs, a filter, and the index segments from which
// they come. It is safe for concurrent use.
type run struct {
	head
	sections
	cachefile.Pages
	span   span // its sequences; zero: it has no name, so it disappears with this process
	dir    string
	own    bool // this process has written it
	file   *cachefile.Plain
	merged map[format.ID]int64 // segments, and the sizes of their files

	firsts    func() ([]uint64, error) // reads the prefixes, once
	filtering sync.Mutex               // held while the filter is read
	filtered  bool                     // the filter may be in memory
	loaded    atomic.Pointer[filter]
	recent    []atomic.Pointer[numbered] // packs by number modulo the length
}

// numbered is a pack that was looked up lately.
type numbered struct {
	number uint32
	info   PackInfo
}

// recentMost is how many packs of a run are kept in memory: far more than the blobs of one directory lie in.
const recentMost = 1 << 10

// damaged returns an error of reading as a *damagedRun.
func (r *run) damaged(what string, err error) error {
	if err == nil {
		return nil
	}
	return &damagedRun{r, fmt.Errorf("%s: %w", what, err)}
}

// openRun opens a run. The error wraps cachefile.ErrDamaged if the file is none of this repository.
func (c *Cache) openRun(path string) (*run, error) {
	f, err := cachefile.OpenRead(path, c.io(c.opt.Dir))
	if err != nil {
		return nil, err
	}
	return newRun(f, filepath.Dir(path), c.opt.Repo)
}

// newRun returns the run in a file of folder dir.
func newRun(f *cachefile.Plain, dir string, repo [16]byte) (_ *run, err error) {
	r := &run{file: f, dir: dir, Pages: cachefile.Pages{Read: f.ReadCached}, merged: make(map[format.ID]int64)}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	q := &cachefile.Page{}
	err = r.Load(q, 0)
	if errors.Is(err, cachefile.ErrDamaged) && string(q.Bytes[cachefile.PageHead:][:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: %w", cachefile.ErrDamaged, cachefile.ErrForeign)
	}
	if err != nil {
		return nil, lost("head of a run", err)
	}
	if _, err := binary.Decode(q.Bytes[cachefile.PageHead:], binary.BigEndian, &r.head); err != nil {
		return nil, err
	}
	if string(r.Magic[:]) != magic || r.Repo != repo {
		return nil, fmt.Errorf("%w: %w", cachefile.ErrDamaged, cachefile.ErrForeign)
	}
	r.sections, r.Pages.Seed = r.head.sections(), r.head.Seed
	err = r.Each(&r.segments, 0, r.segments.Count, func(entry []byte) error {
		r.merged[format.ID(entry[:format.IDSize])] = int64(binary.BigEndian.Uint64(entry[format.IDSize:]))
		return nil
	})
	if err != nil {
		return nil, lost("segments of a run", err)
	}
	r.firsts = sync.OnceValues(func() (firsts []uint64, err error) {
		firsts = make([]uint64, 0, r.prefixes.Count)
		return firsts, r.Each(&r.prefixes, 0, r.prefixes.Count, func(entry []byte) error {
			firsts = append(firsts, binary.BigEndian.Uint64(entry))
			return nil
		})
	})
	r.recent = make([]atomic.Pointer[numbered], min(max(r.Packs, 1), recentMost))
	return r, nil
}

// lost returns an error of opening a run as one that wraps cachefile.ErrDamaged.
func lost(what string, err error) error {
	if errors.Is(err, cachefile.ErrDamaged) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", cachefile.ErrDamaged, what, err)
}

// filterOf returns the filter, which the first lookup reads; nil: it is not kept in memory.
func (r *run) filterOf() (filter, error) {
	if f := r.loaded.Load(); f != nil {
		return *f, nil
	}
	r.filtering.Lock()
	defer r.filtering.Unlock()
	if f := r.loaded.Load(); f != nil || !r.filtered || r.Filter == 0 {
		if f != nil {
			return *f, nil
		}
		return nil, nil
	}
	f := make(filter, 0, r.filter.Count*filterBlock)
	err := r.Each(&r.filter, 0, r.filter.Count, func(block []byte) error { f = append(f, block...); return nil })
	if err != nil {
		return nil, r.damaged("read filter", err)
	}
	r.loaded.Store(&f)
	return f, nil
}

// keepFilter sets whether the filter may be in memory.
func (r *run) keepFilter(keep bool) {
	r.filtering.Lock()
	defer r.filtering.Unlock()
	if r.filtered = keep; !keep {
		r.loaded.Store(nil)
	}
}

// lookup holds the buffers of a lookup, which the next one reuses.
type lookup struct {
	order        []wanted // what is not found yet
	blobs, packs cachefile.Page
}

// wanted is the index of an ID and its first bytes: sorting does not touch the IDs.
type wanted struct {
	prefix uint64
	at     uint32
}

// want adds an ID.
func (q *lookup) want(id *format.ID, at int) {
	q.order = append(q.order, wanted{cachefile.Prefix(id[:]), uint32(at)})
}

// sort orders what is wanted: neighbours share pages.
func (q *lookup) sort() {
	slices.SortFunc(q.order, func(a, b wanted) int { return cmp.Compare(a.prefix, b.prefix) })
	q.blobs.Forget()
}

// search looks up those IDs that q.order wants, and leaves there those that it does not find.
func (r *run) search(q *lookup, ids []format.ID, out []Found) error {
	if r.Blobs == 0 {
		return nil
	}
	filter, err := r.filterOf()
	if err != nil {
		return err
	}
	left := q.order[:0]
	q.blobs.Forget()
	q.packs.Forget()
	for _, w := range q.order {
		i := w.at
		at, err := []byte(nil), error(nil)
		if filter.mayContain(&ids[i]) {
			at, err = r.locate(q, &ids[i])
		}
		if err == nil && at == nil {
			left = append(left, w)
			continue
		}
		if err == nil {
			var n uint32
			out[i].Loc, n = parseLoc(at)
			out[i].Pack, err = r.pack(q, n)
		}
		if err != nil {
			return &damagedRun{r, err}
		}
	}
	q.order = left
	return nil
}

func (r *run) locate(q *lookup, id *format.ID) ([]byte, error) {
	firsts, err := r.firsts()
	if err != nil {
		return nil, err
	}
	return r.Find(&q.blobs, &r.blobs, firsts, id[:])
}

// pack returns a pack of the run.
func (r *run) pack(q *lookup, n uint32) (*PackInfo, error) {
	slot := &r.recent[n%uint32(len(r.recent))]
	if had := slot.Load(); had != nil && had.number == n {
		return &had.info, nil
	}
	if n >= r.Packs {
		return nil, fmt.Errorf("pack %d: %w", n, cachefile.ErrDamaged)
	}
	entry, err := r.Entry(&q.packs, &r.packs, uint64(n))
	if err != nil {
		return nil, err
	}
	made := &numbered{n, parsePack(entry)}
	slot.Store(made)
	return &made.info, nil
}

// packsAt returns up to packsAtOnce packs from number n on.
func (r *run) packsAt(n uint32) (packs []PackInfo, err error) {
	err = r.Each(&r.packs, uint64(n), uint64(min(r.Packs, n+packsAtOnce)), func(entry []byte) error {
		packs = append(packs, parsePack(entry))
		return nil
	})
	return packs, r.damaged("list packs", err)
}

const packsAtOnce = 1 << 10

// class is the order of magnitude of a run.
func (r *run) class() int {
	class := 0
	for n := r.Blobs; n >= smallRun; n /= runsPerClass {
		class++
	}
	return class
}
