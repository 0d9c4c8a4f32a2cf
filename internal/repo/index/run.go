package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// The buckets of a run. All values have checksums.
const (
	bucketSegments = "segments" // segment ID -> bytes of its file u64; 0: unknown, or the segment was superseded
	bucketPacks    = "packs"    // pack number u32 -> PackInfo
	bucketBlobs    = "blobs"    // last ID of a block -> block
	bucketFilter   = "filter"   // chunk number u32 -> chunk
	headName       = "head"     // value of the file: head
)

func runTable() cachefile.Table {
	return cachefile.Table{Buckets: []string{bucketSegments, bucketPacks, bucketBlobs, bucketFilter}}
}

// head describes a run.
type head struct {
	seed     uint32 // of all checksums: random
	blobs    uint64
	packs    uint32
	segments uint32
	blocks   uint32 // of the filter
	last     uint64 // prefix of the last ID
}

const headSize = 32

func (h *head) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, h.seed)
	dst = binary.BigEndian.AppendUint64(dst, h.blobs)
	dst = binary.BigEndian.AppendUint32(dst, h.packs)
	dst = binary.BigEndian.AppendUint32(dst, h.segments)
	dst = binary.BigEndian.AppendUint32(dst, h.blocks)
	return binary.BigEndian.AppendUint64(dst, h.last)
}

func parseHead(p []byte) (h head, ok bool) {
	if len(p) != headSize {
		return h, false
	}
	h.seed, h.blobs = binary.BigEndian.Uint32(p), binary.BigEndian.Uint64(p[4:])
	h.packs, h.segments = binary.BigEndian.Uint32(p[12:]), binary.BigEndian.Uint32(p[16:])
	h.blocks, h.last = binary.BigEndian.Uint32(p[20:]), binary.BigEndian.Uint64(p[24:])
	return h, true
}

// salted is the key under which the checksum of a value is computed.
func (h *head) salted(bucket string, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte(bucket), h.seed), key...)
}

func (h *head) put(tx *bolt.Tx, bucket string, key, value []byte) error {
	sum := cachefile.Sum(h.salted(bucket, key), value)
	buf := append(make([]byte, 0, len(value)+4), value...) // bbolt keeps it until the commit
	return cachefile.Bucket(tx, bucket).Put(key, binary.LittleEndian.AppendUint32(buf, sum))
}

// check returns the n bytes of a value, without the checksum.
func (h *head) check(bucket string, key, p []byte, n int) ([]byte, error) {
	value, ok := cachefile.Summed(h.salted(bucket, key), p, n)
	if !ok {
		return nil, fmt.Errorf("%s: %w", bucket, cachefile.ErrDamaged)
	}
	return value, nil
}

// run is an open run: an immutable file with sorted blobs, their packs, a filter, and the index segments from which
// they come. It is safe for concurrent use.
type run struct {
	head
	span span // its sequences; zero: it has no name, so it disappears with this process
	dir  string
	own  bool // this process has written it
	file *cachefile.File
	read *cachefile.ReadPool[*runReader]

	filtering sync.Mutex // held while the filter is read
	filtered  bool       // the filter may be in memory
	filter    atomic.Pointer[filter]
	recent    []atomic.Pointer[numbered] // packs by number modulo the length
}

// numbered is a pack that was looked up lately.
type numbered struct {
	number uint32
	info   PackInfo
}

// recentMost is how many packs of a run are kept in memory: far more than the blobs of one directory lie in.
const recentMost = 1 << 10

// runReader is what a lookup needs of a transaction.
type runReader struct {
	tx     *bolt.Tx
	cursor *bolt.Cursor // of bucketBlobs
	key    format.ID    // bbolt makes a key escape to the heap
}

func newRunReader(tx *bolt.Tx) *runReader {
	return &runReader{tx: tx, cursor: cachefile.Bucket(tx, bucketBlobs).Cursor()}
}

// view reads a run. An error is a *damagedRun.
func (r *run) view(what string, read func(*runReader) error) error {
	if err := r.read.Read(what, read); err != nil {
		return &damagedRun{r, err}
	}
	return nil
}

// openRun opens a run. The error wraps cachefile.ErrDamaged if the file is none of this repository.
func (c *Cache) openRun(path string) (*run, error) {
	f, err := cachefile.OpenRead(path, c.opt.Repo, c.io(c.opt.Dir), &c.mapping, runTable())
	if err != nil {
		return nil, err
	}
	return newRun(f, filepath.Dir(path))
}

// newRun returns the run in a file of folder dir.
func newRun(f *cachefile.File, dir string) (*run, error) {
	r := &run{file: f, dir: dir, read: cachefile.NewReadPool(f, newRunReader)}
	value, err := f.Value(headName)
	h, ok := parseHead(value)
	if err != nil || !ok {
		_ = f.Close()
		return nil, fmt.Errorf("head of a run: %w", cachefile.ErrDamaged)
	}
	r.head = h
	r.recent = make([]atomic.Pointer[numbered], min(max(h.packs, 1), recentMost))
	return r, nil
}

// filterOf returns the filter, which the first lookup reads; nil: it is not kept in memory.
func (r *run) filterOf() (filter, error) {
	if f := r.filter.Load(); f != nil {
		return *f, nil
	}
	r.filtering.Lock()
	defer r.filtering.Unlock()
	if f := r.filter.Load(); f != nil || !r.filtered {
		if f != nil {
			return *f, nil
		}
		return nil, nil
	}
	var f filter
	err := r.view("read filter", func(rd *runReader) (err error) {
		f, err = readFilter(cachefile.Bucket(rd.tx, bucketFilter), r.blocks,
			func(b *bolt.Bucket, key []byte, n int) ([]byte, error) {
				return r.check(bucketFilter, key, b.Get(key), n)
			})
		return err
	})
	if err != nil {
		return nil, err
	}
	r.filter.Store(&f)
	return f, nil
}

// keepFilter sets whether the filter may be in memory.
func (r *run) keepFilter(keep bool) {
	r.filtering.Lock()
	defer r.filtering.Unlock()
	if r.filtered = keep; !keep {
		r.filter.Store(nil)
	}
}

// search looks up those IDs whose indexes are in order, which follows ascending IDs. It returns the indexes of the
// others, in the same memory.
func (r *run) search(order []uint32, ids []format.ID, out []Found) (left []uint32, err error) {
	if r.blobs == 0 {
		return order, nil
	}
	filter, err := r.filterOf()
	if err != nil {
		return nil, err
	}
	first := 0
	for first < len(order) && !filter.mayContain(&ids[order[first]]) {
		first++
	}
	if first == len(order) {
		return order, nil
	}
	left = order[:first]
	err = r.view("look up blobs", func(rd *runReader) error {
		var b block
		loaded := false
		for _, i := range order[first:] {
			id := &ids[i]
			if !filter.mayContain(id) || prefixOf(id[:]) > r.last {
				left = append(left, i)
				continue
			}
			if !loaded || bytes.Compare(b.id(b.len()-1), id[:]) < 0 {
				var err error
				if b, loaded, err = r.seek(rd, id); err != nil {
					return err
				}
			}
			if !loaded {
				left = append(left, i)
				continue
			}
			loc, n, found, err := b.find(id)
			if err != nil {
				return err
			}
			if !found {
				left = append(left, i)
				continue
			}
			info, err := r.pack(rd, n)
			if err != nil {
				return err
			}
			out[i] = Found{loc, info}
		}
		return nil
	})
	return left, err
}

// seek returns the block that may contain an ID; found is false behind the last one.
func (r *run) seek(rd *runReader, id *format.ID) (b block, found bool, err error) {
	r.file.Touched(rd.tx)
	rd.key = *id
	_, value := rd.cursor.Seek(rd.key[:])
	if value == nil && prefixOf(id[:]) < r.last {
		return block{}, false, fmt.Errorf("end of the blobs: %w", cachefile.ErrDamaged)
	}
	if value == nil {
		return block{}, false, nil
	}
	b, err = parseBlock(value, r.seed)
	return b, err == nil, err
}

// pack returns a pack of the run.
func (r *run) pack(rd *runReader, n uint32) (*PackInfo, error) {
	slot := &r.recent[n%uint32(len(r.recent))]
	if had := slot.Load(); had != nil && had.number == n {
		return &had.info, nil
	}
	key := cachefile.Number(n)
	v, err := r.check(bucketPacks, key, cachefile.Bucket(rd.tx, bucketPacks).Get(key), packSize)
	if err != nil {
		return nil, err
	}
	r.file.Touched(rd.tx)
	made := &numbered{n, parsePack(v)}
	slot.Store(made)
	return &made.info, nil
}

// packsAt returns up to packsAtOnce packs from number n on.
func (r *run) packsAt(n uint32) (packs []PackInfo, err error) {
	end := min(r.packs, n+packsAtOnce)
	err = r.view("list packs", func(rd *runReader) error {
		cursor := cachefile.Bucket(rd.tx, bucketPacks).Cursor()
		k, v := cursor.Seek(cachefile.Number(n))
		for at := n; at < end; at++ {
			if !bytes.Equal(k, cachefile.Number(at)) {
				return fmt.Errorf("pack %d: %w", at, cachefile.ErrDamaged)
			}
			value, err := r.check(bucketPacks, k, v, packSize)
			if err != nil {
				return err
			}
			packs = append(packs, parsePack(value))
			k, v = cursor.Next()
		}
		return nil
	})
	return packs, err
}

const packsAtOnce = 1 << 10

// addSegments enters the segments of the run into a map.
func (r *run) addSegments(to map[format.ID]int64) error {
	return r.view("list merged segments", func(rd *runReader) error {
		n := uint32(0)
		err := cachefile.Each(cachefile.Bucket(rd.tx, bucketSegments), func(k, v []byte) error {
			size, err := r.check(bucketSegments, k, v, 8)
			if err != nil || len(k) != format.IDSize {
				return fmt.Errorf("segment: %w", cachefile.ErrDamaged)
			}
			n++
			to[format.ID(k)] = int64(binary.BigEndian.Uint64(size))
			return nil
		})
		if err == nil && n != r.segments {
			err = fmt.Errorf("%d of %d segments: %w", n, r.segments, cachefile.ErrDamaged)
		}
		return err
	})
}

// hasSegment reports whether a segment was merged.
func (r *run) hasSegment(id format.ID) (had bool, err error) {
	err = r.view("look up segment", func(rd *runReader) error {
		p := cachefile.Bucket(rd.tx, bucketSegments).Get(id[:])
		if had = p != nil; !had {
			return nil
		}
		_, err := r.check(bucketSegments, id[:], p, 8)
		return err
	})
	return had, err
}

// class is the order of magnitude of a run.
func (r *run) class() int {
	class := 0
	for n := r.blobs; n >= smallRun; n /= runsPerClass {
		class++
	}
	return class
}
