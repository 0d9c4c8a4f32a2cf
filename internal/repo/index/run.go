package index

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// run describes a run in bucketRuns.
type run struct {
	number uint32
	blobs  uint64 // records in it
	blocks uint32 // of its filter
}

func (r *run) class() int {
	class := 0
	for n := r.blobs; n >= smallRun; n /= runsPerClass {
		class++
	}
	return class
}

func (r *run) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, r.blobs), r.blocks)
}

func parseRun(k, v []byte) (run, error) {
	if len(k) != 4 || len(v) != 12 {
		return run{}, fmt.Errorf("run: %w", cachefile.ErrDamaged)
	}
	return run{binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(v), binary.BigEndian.Uint32(v[8:])}, nil
}

// listRuns returns the runs from the oldest to the newest.
func listRuns(tx *bolt.Tx, dst []run) ([]run, error) {
	cursor := cachefile.Bucket(tx, bucketRuns).Cursor()
	for k, v := cachefile.First(cursor); k != nil; k, v = cursor.Next() {
		r, err := parseRun(k, v)
		if err != nil {
			return nil, err
		}
		dst = append(dst, r)
	}
	return dst, nil
}

// runBucket returns the blocks of a run.
func runBucket(tx *bolt.Tx, r uint32) (*bolt.Bucket, error) {
	b := cachefile.Bucket(tx, bucketBlobs).Bucket(cachefile.Number(r))
	if b == nil {
		return nil, fmt.Errorf("run %d: %w", r, cachefile.ErrDamaged)
	}
	return b, nil
}

// runWriter writes one run by ascending ID, in one or more transactions.
type runWriter struct {
	run
	tx     *bolt.Tx
	blocks *bolt.Bucket
	filter *filterWriter

	n    int    // records in the current block
	ids  []byte // of these records
	locs []byte
}

// newRunWriter begins a run of at most n blobs. The run is not listed before finish.
func newRunWriter(tx *bolt.Tx, n uint64) (*runWriter, error) {
	next, err := cachefile.Bucket(tx, bucketRuns).NextSequence()
	if err != nil {
		return nil, err
	}
	w := &runWriter{run: run{number: uint32(next)}}
	for _, name := range [...]string{bucketBlobs, bucketFilters} {
		if _, err := cachefile.Bucket(tx, name).CreateBucket(cachefile.Number(w.number)); err != nil {
			return nil, err
		}
	}
	w.filter = newFilterWriter(n)
	return w, w.enter(tx)
}

// enter continues in tx.
func (w *runWriter) enter(tx *bolt.Tx) (err error) {
	w.tx = tx
	if w.blocks, err = runBucket(tx, w.number); err != nil {
		return err
	}
	w.blocks.FillPercent = 1 // keys are appended only
	w.filter.bucket = cachefile.Bucket(tx, bucketFilters).Bucket(cachefile.Number(w.number))
	return nil
}

func (w *runWriter) add(id *format.ID, loc *Loc) error {
	w.ids = append(w.ids, id[:]...)
	w.locs = appendLoc(w.locs, loc)
	w.n++
	w.blobs++
	if err := w.filter.add(id); err != nil {
		return err
	}
	if len(w.ids)+len(w.locs) < blockBytes {
		return nil
	}
	return w.flush()
}

// flush writes the block under the ID of its last record, so that one Seek finds the block that may contain an ID.
func (w *runWriter) flush() error {
	if w.n == 0 {
		return nil
	}
	last := append([]byte(nil), w.ids[len(w.ids)-format.IDSize:]...)
	block := make([]byte, sumSize, blockHead+len(w.ids)+len(w.locs)) // bbolt keeps it until the commit
	block = binary.LittleEndian.AppendUint16(block, uint16(w.n))
	block = append(append(block, w.ids...), w.locs...)
	binary.LittleEndian.PutUint32(block, blockSum(w.number, block[sumSize:]))
	w.n, w.ids, w.locs = 0, w.ids[:0], w.locs[:0]
	return w.blocks.Put(last, block)
}

// finish lists the run.
func (w *runWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.filter.finish(); err != nil {
		return err
	}
	w.run.blocks = w.filter.blocks
	return cachefile.Bucket(w.tx, bucketRuns).Put(cachefile.Number(w.number), w.append(nil))
}

func appendLoc(dst []byte, l *Loc) []byte {
	dst = binary.AppendUvarint(dst, uint64(l.Pack))
	dst = binary.AppendUvarint(dst, uint64(l.Offset))
	dst = binary.AppendUvarint(dst, uint64(l.Sealed))
	dst = binary.AppendUvarint(dst, uint64(l.Skip))
	return binary.AppendUvarint(dst, uint64(l.Len))
}

// block is a decoded block; it aliases the file.
type block struct {
	ids  []byte // format.IDSize each
	locs []byte // five varints each
}

// parseBlock opens a block of run r. A backup relies on its content instead of storing a blob, so the block has a
// checksum. The checksum covers the run number, which detects a page of an earlier run that reappeared.
func parseBlock(p []byte, r uint32) (block, error) {
	if len(p) < blockHead || binary.LittleEndian.Uint32(p) != blockSum(r, p[sumSize:]) {
		return block{}, fmt.Errorf("block: %w", cachefile.ErrDamaged)
	}
	n := int(binary.LittleEndian.Uint16(p[sumSize:])) * format.IDSize
	p = p[blockHead:]
	if n == 0 || len(p) < n {
		return block{}, fmt.Errorf("block: %w", cachefile.ErrDamaged)
	}
	return block{p[:n], p[n:]}, nil
}

const (
	sumSize   = 4
	blockHead = sumSize + 2 // plus the number of records
)

func blockSum(r uint32, p []byte) uint32 {
	return crc32.Update(r, crc32.MakeTable(crc32.Castagnoli), p)
}

func (b *block) len() int { return len(b.ids) / format.IDSize }

func (b *block) id(i int) []byte { return b.ids[i*format.IDSize:][:format.IDSize] }

// takeLoc decodes the location at the start of p and returns the rest.
func takeLoc(p []byte) (l Loc, rest []byte, err error) {
	for _, field := range [...]*uint32{&l.Pack, &l.Offset, &l.Sealed, &l.Skip, &l.Len} {
		v, n := binary.Uvarint(p)
		if n <= 0 || v > 1<<32-1 {
			return Loc{}, nil, fmt.Errorf("location of a blob: %w", cachefile.ErrDamaged)
		}
		*field, p = uint32(v), p[n:]
	}
	return l, p, nil
}

// skipLocs returns p without its first n locations.
func skipLocs(p []byte, n int) ([]byte, error) {
	left := 5 * n
	for i := 0; left > 0; i++ {
		if i == len(p) {
			return nil, fmt.Errorf("locations of blobs: %w", cachefile.ErrDamaged)
		}
		if p[i] < 0x80 {
			if left--; left == 0 {
				return p[i+1:], nil
			}
		}
	}
	return p, nil
}
