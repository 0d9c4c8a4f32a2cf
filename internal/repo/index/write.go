package index

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// blobsPerCommit is how many blobs one transaction writes: about 6 MiB of memory.
	blobsPerCommit = 128 << 10
	// packsPerCommit is how many packs one transaction writes.
	packsPerCommit = 32 << 10
)

// content is what a run is written from.
type content struct {
	most     uint64                                // blobs at most, for the size of the filter
	next     func(*record) (ok bool, err error)    // by ascending ID
	packs    uint32                                // number of packs
	pack     func(from uint32) ([]PackInfo, error) // some packs from a number on
	segments map[format.ID]int64
}

// contentOf returns the content for records in any order. Of records of one ID, the last counts.
func contentOf(records []record, packs []*PackInfo, segments map[format.ID]int64) *content {
	order := make([]uint32, 0, len(records))
	for i := range sorted(records, nil) {
		order = append(order, i)
	}
	at := 0
	return &content{
		most: uint64(len(order)), packs: uint32(len(packs)), segments: segments,
		next: func(r *record) (bool, error) {
			if at == len(order) {
				return false, nil
			}
			*r = records[order[at]]
			at++
			return true, nil
		},
		pack: func(from uint32) (some []PackInfo, err error) {
			for _, p := range packs[from:min(int(from)+packsAtOnce, len(packs))] {
				some = append(some, *p)
			}
			return some, nil
		},
	}
}

// runWriter writes one run by ascending ID, in transactions of bounded size.
type runWriter struct {
	head
	content *content
	tx      *bolt.Tx
	filter  *filterWriter
	record  record
	block   block
}

// write writes a run into folder dir: under a temporary name and flushed if it is to be kept, and else without a name.
func (c *content) write(dir string, repo [16]byte, io localfs.IOContext, keep bool) (f *cachefile.File, err error) {
	f, err = cachefile.Create(dir, tempPrefix, repo, io, runTable())
	if err != nil {
		return nil, err
	}
	if !keep {
		_ = os.Remove(f.Path())
	}
	w := &runWriter{content: c}
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails
	w.seed = binary.LittleEndian.Uint32(seed[:])
	w.filter = newFilterWriter(c.most, func(k, v []byte) error { return w.put(w.tx, bucketFilter, k, v) })
	for _, step := range [...]func() (done bool, err error){w.putPacks, w.putBlobs, w.putRest} {
		for done := false; !done && err == nil; {
			err = f.Update("write run of the cache", func(tx *bolt.Tx) (err error) {
				w.tx = tx
				done, err = step()
				return err
			})
		}
	}
	if err == nil && keep {
		err = f.Finish()
	}
	return f, err
}

func (w *runWriter) putPacks() (done bool, err error) {
	cachefile.Bucket(w.tx, bucketPacks).FillPercent = 1 // keys are appended only
	for n := w.packs + packsPerCommit; w.packs < min(n, w.content.packs); {
		some, err := w.content.pack(w.packs)
		if err != nil {
			return false, err
		}
		for i := range some {
			if err := w.put(w.tx, bucketPacks, cachefile.Number(w.packs), appendPack(nil, &some[i])); err != nil {
				return false, err
			}
			w.packs++
		}
	}
	return w.packs == w.content.packs, nil
}

func (w *runWriter) putBlobs() (done bool, err error) {
	cachefile.Bucket(w.tx, bucketBlobs).FillPercent = 1
	for range blobsPerCommit {
		ok, err := w.content.next(&w.record)
		if err != nil {
			return false, err
		}
		if !ok {
			return true, w.flush()
		}
		if err := w.add(&w.record); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (w *runWriter) add(r *record) error {
	w.block.ids = append(w.block.ids, r.id[:]...)
	w.block.locs = appendLoc(w.block.locs, &r.loc, r.number)
	w.blobs++
	if err := w.filter.add(&r.id); err != nil {
		return err
	}
	if len(w.block.ids)+len(w.block.locs) < blockBytes {
		return nil
	}
	return w.flush()
}

// flush writes the block under the ID of its last record, so that one Seek finds the block that may contain an ID.
func (w *runWriter) flush() error {
	n := w.block.len()
	if n == 0 {
		return nil
	}
	last := bytes.Clone(w.block.id(n - 1))
	value := appendBlock(make([]byte, 0, blockHead+len(w.block.ids)+len(w.block.locs)), w.seed, &w.block)
	w.block.ids, w.block.locs, w.block.after, w.last = w.block.ids[:0], w.block.locs[:0], prefixOf(last), prefixOf(last)
	return cachefile.Bucket(w.tx, bucketBlobs).Put(last, value)
}

// putRest ends the run: without the head it cannot be opened.
func (w *runWriter) putRest() (done bool, err error) {
	w.segments, w.blocks = uint32(len(w.content.segments)), w.filter.blocks
	for _, id := range slices.SortedFunc(maps.Keys(w.content.segments), format.ID.Compare) {
		size := binary.BigEndian.AppendUint64(nil, uint64(w.content.segments[id]))
		if err := w.put(w.tx, bucketSegments, id[:], size); err != nil {
			return false, err
		}
	}
	if err := w.filter.finish(); err != nil {
		return false, err
	}
	return true, cachefile.PutValue(w.tx, headName, w.head.append(nil))
}

// damagedRun is the error of a run that cannot be read.
type damagedRun struct {
	run *run
	err error
}

func (d *damagedRun) Error() string {
	return fmt.Sprintf("%s: %v", filepath.Base(d.run.file.Path()), d.err)
}
func (d *damagedRun) Unwrap() error { return d.err }

// merged returns the content of several runs, from the oldest to the newest. Errors of reading are *damagedRun.
func merged(runs []*run) (*content, error) {
	c := &content{segments: make(map[format.ID]int64)}
	var heads []*runCursor
	for _, r := range runs {
		if err := r.addSegments(c.segments); err != nil {
			return nil, err
		}
		heads = append(heads, &runCursor{run: r, base: c.packs})
		c.most += r.blobs
		c.packs += r.packs
	}
	c.pack = func(from uint32) ([]PackInfo, error) {
		at := len(heads) - 1
		for heads[at].base > from || heads[at].run.packs == 0 {
			at--
		}
		return heads[at].run.packsAt(from - heads[at].base)
	}
	for _, h := range heads {
		if err := h.next(); err != nil {
			return nil, err
		}
	}
	c.next = func(out *record) (bool, error) { return nextOf(heads, out) }
	return c, nil
}

// nextOf returns the record of the lowest ID. Of equal IDs the newest counts, which is the last.
func nextOf(heads []*runCursor, out *record) (bool, error) {
	best := -1
	for i, r := range heads {
		if r.ok && (best < 0 || r.id.Compare(heads[best].id) <= 0) {
			best = i
		}
	}
	if best < 0 {
		return false, nil
	}
	*out = heads[best].record
	for _, r := range heads {
		if r.ok && r.id == out.id {
			if err := r.next(); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// runCursor reads a run sequentially.
type runCursor struct {
	run   *run
	base  uint32 // added to the numbers of packs
	value []byte // a copy of the block
	block block
	i     int    // of the next record in the block
	n     uint64 // records read
	record
	ok bool // record is set
}

func (r *runCursor) next() error {
	if r.i == r.block.len() {
		if r.n == r.run.blobs {
			r.ok = false
			return nil
		}
		if err := r.load(); err != nil {
			return err
		}
	}
	loc, pack, rest, err := takeLoc(r.block.locs)
	if err != nil {
		return &damagedRun{r.run, err}
	}
	copy(r.id[:], r.block.id(r.i))
	r.loc, r.number, r.block.locs, r.ok = loc, r.base+pack, rest, true
	r.i++
	r.n++
	return nil
}

// load copies the block behind the last record.
func (r *runCursor) load() error {
	return r.run.view("read run", func(rd *runReader) error {
		var after uint64
		var value []byte
		if r.n == 0 {
			_, value = cachefile.First(rd.cursor)
		} else {
			after = prefixOf(r.id[:])
			_, value = rd.cursor.Seek(append(r.id[:], 0))
		}
		r.run.file.Touched(rd.tx)
		r.value = append(r.value[:0], value...)
		b, err := parseBlock(r.value, r.run.seed)
		if err == nil && b.after != after {
			err = fmt.Errorf("wrong block: %w", cachefile.ErrDamaged)
		}
		r.block, r.i = b, 0
		return err
	})
}
