package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/extsort"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

const (
	// recordSize is an ID and five numbers of 32 bits.
	recordSize = format.IDSize + 5*4
	// keySize is the key of a record while it is sorted: its ID and the order of its pack.
	keySize = format.IDSize + 4
	// blockSize is what a lookup reads.
	blockSize = 4096
	perBlock  = blockSize / recordSize
	// runRecords is how many records are sorted in memory: 4 MiB with their order.
	runRecords = 64 << 10
	// recentPacks is how many packs a Temporary caches: more than there are goroutines that read trees.
	recentPacks = 64
)

// Temporary is a blob index for one check or prune: it is filled first and queried afterwards. Each blob has a number,
// so that a set of blobs is a bitset. Different blobs have different numbers.
//
// Records are sorted externally. The first lookup merges the runs into one list of blocks; the prefix of the first ID
// of each block stays in memory, a tenth of a byte per blob, beside 16 bytes per pack. A lookup reads one block with
// pread, so nothing of the file is resident. Filling takes a third of the time of a Cache. Lookups are safe for
// concurrent use.
type Temporary struct {
	file  tempFile
	packs []packSpan                            // ascending
	last  [recentPacks]atomic.Pointer[numbered] // packs by their place in packs modulo the length
	list  *blockList
}

// Numbered is the result of a lookup in a Temporary.
type Numbered struct {
	Loc    Loc
	Number uint32 // of the blob
	OK     bool   // it was found
}

// packSpan is the first number of a pack. Its numbers end where those of the next begin.
type packSpan struct {
	first uint64
	info  int64 // offset of the encoded PackInfo in the file
}

// OpenTemporary creates an empty index in folder dir, which is created if it is missing. The file disappears when it is
// closed or the process ends.
func OpenTemporary(dir string, io localfs.IOContext) (*Temporary, error) {
	f, err := cachefile.OpenTempFile(dir, io)
	if err != nil {
		return nil, fmt.Errorf("make temporary index: %w", err)
	}
	return newTemporary(f), nil
}

func newTemporary(f tempFile) *Temporary { return &Temporary{file: f, list: newBlockList(f)} }

// Close releases the file.
func (x *Temporary) Close() error { return x.file.Close() }

// Merge adds packs. The blobs of pack i have the numbers from first[i] on, in the order of its table; the values of
// first ascend beyond all numbers so far. Of several packs with a blob, the one of the lowest order counts, and of
// equal ones the last that was merged; without order all are equal. It is for one goroutine and precedes all lookups.
func (x *Temporary) Merge(packs []index.Pack, first []uint64, order func(format.ID) uint32) error {
	for i := range packs {
		p := &packs[i]
		nth := uint32(0)
		if order != nil {
			nth = order(p.ID)
		}
		if first[i]+uint64(blobsOf(packs[i:i+1])) > math.MaxUint32 {
			return fmt.Errorf("more than %d blobs: %w", uint32(math.MaxUint32), ErrTooMany)
		}
		info := infoOf(p)
		at, err := x.list.runs.Append(appendPack(nil, &info))
		if err != nil {
			return fmt.Errorf("record pack: %w", err)
		}
		x.packs = append(x.packs, packSpan{first[i], at})
		number := uint32(first[i])
		err = eachBlob(p, func(id format.ID, loc Loc) error {
			number++
			return x.list.add(record{id, loc, number - 1}, nth)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Lookup fills out, which must be as long as ids.
func (x *Temporary) Lookup(ids []format.ID, out []Numbered) error { return x.list.lookup(ids, out) }

// Each visits each blob once, by ascending ID, with its number. It ends the filling.
func (x *Temporary) Each(visit func(id format.ID, number uint32) error) error {
	return x.list.each(visit)
}

// Replaced returns how many further locations blobs have. It ends the filling.
func (x *Temporary) Replaced() (uint64, error) {
	if err := x.list.merge(); err != nil {
		return 0, err
	}
	return x.list.added - uint64(x.list.count), nil
}

// PackOf returns the pack of the blob with that number.
func (x *Temporary) PackOf(number uint32) (PackInfo, error) {
	i := sort.Search(len(x.packs), func(i int) bool { return x.packs[i].first > uint64(number) }) - 1
	if i < 0 {
		return PackInfo{}, fmt.Errorf("blob number %d: %w", number, errNoPack)
	}
	slot := &x.last[i%recentPacks]
	if had := slot.Load(); had != nil && had.number == uint32(i) {
		return had.info, nil
	}
	var p [packSize]byte
	if _, err := x.file.ReadAt(p[:], x.packs[i].info); err != nil {
		return PackInfo{}, fmt.Errorf("read temporary index: %w", err)
	}
	info := parsePack(p[:])
	slot.Store(&numbered{uint32(i), info})
	return info, nil
}

// tempFile holds a Temporary.
type tempFile interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Close() error
}

// blockList is a sorted list of records in blocks of a file.
type blockList struct {
	file    tempFile
	runs    *extsort.Runs
	records []record // of the next run
	orders  []uint32 // of their packs
	added   uint64
	most    int // records of a run: runRecords, which tests reduce

	once     sync.Once // the first lookup
	queried  bool
	err      error    // of merging
	base     int64    // offset of the list
	count    int      // records in it
	prefixes []uint64 // of the first ID of each block
	scratch  sync.Pool
}

func newBlockList(f tempFile) *blockList {
	l := &blockList{file: f, runs: extsort.New(f, f, keySize), most: runRecords}
	l.scratch.New = func() any { return new(blockLookup) }
	return l
}

func (l *blockList) add(r record, order uint32) error {
	if l.queried {
		return errFull
	}
	l.added++
	l.orders = append(l.orders, order)
	if l.records = append(l.records, r); len(l.records) < l.most {
		return nil
	}
	return l.writeRun()
}

func (l *blockList) writeRun() error {
	if len(l.records) == 0 {
		return nil
	}
	err := l.runs.Write(func(yield func(key, value []byte) bool) {
		var key [keySize]byte
		var value [recordSize - format.IDSize]byte
		for i := range sorted(l.records, l.orders) {
			r := &l.records[i]
			copy(key[:], r.id[:])
			binary.BigEndian.PutUint32(key[format.IDSize:], l.orders[i])
			if !yield(key[:], encodeLoc(&value, r)) {
				return
			}
		}
	})
	if err != nil {
		return fmt.Errorf("write blob index: %w", err)
	}
	l.records, l.orders = l.records[:0], l.orders[:0]
	return nil
}

func encodeLoc(value *[recordSize - format.IDSize]byte, r *record) []byte {
	loc := &r.loc
	for i, n := range [...]uint32{r.number, loc.Offset, loc.Sealed, loc.Skip, loc.Len} {
		binary.LittleEndian.PutUint32(value[4*i:], n)
	}
	return value[:]
}

func decodeLoc(p []byte) Numbered {
	n := func(i int) uint32 { return binary.LittleEndian.Uint32(p[4*i:]) }
	return Numbered{Loc: Loc{Offset: n(1), Sealed: n(2), Skip: n(3), Len: n(4)}, Number: n(0), OK: true}
}

// merge writes the list, once.
func (l *blockList) merge() error {
	l.once.Do(func() {
		l.queried = true
		if l.err = l.writeRun(); l.err == nil {
			l.records, l.orders = nil, nil
			l.err = l.writeBlocks()
		}
	})
	return l.err
}

// writeBlocks merges the runs into blocks behind them. Of the records of an ID, the first has the lowest order.
func (l *blockList) writeBlocks() error {
	m, err := l.runs.Merge()
	if err != nil {
		return err
	}
	l.base = (l.runs.End() + blockSize - 1) / blockSize * blockSize
	const atOnce = 64 * blockSize
	buf := make([]byte, 0, atOnce)
	at := l.base
	var last format.ID
	flush := func() error {
		_, err := l.file.WriteAt(buf, at)
		at += int64(len(buf))
		buf = buf[:0]
		return err
	}
	for {
		key, value, ok, err := m.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if l.count > 0 && bytes.Equal(key[:format.IDSize], last[:]) {
			continue
		}
		copy(last[:], key)
		if l.count%perBlock == 0 {
			buf = buf[:(len(buf)+blockSize-1)/blockSize*blockSize] // what is left of a block is never read
			if len(buf) == atOnce {
				if err := flush(); err != nil {
					return fmt.Errorf("write blob index: %w", err)
				}
			}
			l.prefixes = append(l.prefixes, prefixOf(key))
		}
		buf = append(append(buf, last[:]...), value...)
		l.count++
	}
	if err := flush(); err != nil {
		return fmt.Errorf("write blob index: %w", err)
	}
	return nil
}

// blockLookup holds the buffers of one lookup, which the next one reuses.
type blockLookup struct {
	order  []prefixed
	block  [blockSize]byte
	n      int // records in the block
	number int // of the block; -1: none
}

func (l *blockList) lookup(ids []format.ID, out []Numbered) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: space for %d results", len(ids), len(out))
	}
	clear(out)
	if err := l.merge(); err != nil {
		return err
	}
	q := l.scratch.Get().(*blockLookup)
	defer l.scratch.Put(q)
	q.number, q.order = -1, slices.Grow(q.order[:0], len(ids))
	for i := range ids {
		q.order = append(q.order, prefixed{prefixOf(ids[i][:]), uint32(i)})
	}
	slices.SortFunc(q.order, func(a, b prefixed) int { return cmp.Compare(a.prefix, b.prefix) }) // neighbours share blocks
	for _, o := range q.order {
		// The ID is in the last block whose prefix is not greater, or in an earlier one with an equal prefix.
		b := sort.Search(len(l.prefixes), func(i int) bool { return l.prefixes[i] > o.prefix }) - 1
		for ; b >= 0; b-- {
			if err := l.load(q, b); err != nil {
				return err
			}
			if out[o.at] = q.find(&ids[o.at]); out[o.at].OK {
				break
			}
			if l.prefixes[b] < o.prefix {
				break
			}
		}
	}
	return nil
}

func (l *blockList) each(visit func(id format.ID, number uint32) error) error {
	if err := l.merge(); err != nil {
		return err
	}
	q := &blockLookup{number: -1}
	for b := range l.prefixes {
		if err := l.load(q, b); err != nil {
			return err
		}
		for i := range q.n {
			id, loc := q.block[i*recordSize:][:format.IDSize], q.block[i*recordSize+format.IDSize:]
			if err := visit(format.ID(id), decodeLoc(loc).Number); err != nil {
				return err
			}
		}
	}
	return nil
}

// load reads a block.
func (l *blockList) load(q *blockLookup, b int) error {
	if q.number == b {
		return nil
	}
	q.number, q.n = b, min(perBlock, l.count-b*perBlock)
	want := q.block[:q.n*recordSize]
	if n, err := l.file.ReadAt(want, l.base+int64(b)*blockSize); n < len(want) {
		q.number = -1
		return fmt.Errorf("read blob index: %w", err)
	}
	return nil
}

func (q *blockLookup) find(id *format.ID) Numbered {
	at := sort.Search(q.n, func(i int) bool { return bytes.Compare(q.block[i*recordSize:][:format.IDSize], id[:]) >= 0 })
	if at == q.n || !bytes.Equal(q.block[at*recordSize:][:format.IDSize], id[:]) {
		return Numbered{}
	}
	return decodeLoc(q.block[at*recordSize+format.IDSize:][:recordSize-format.IDSize])
}
