package dircache

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/extsort"
)

const (
	keySize = 16
	// fieldsSize is the place and checksum of a value, the number of the writer, and the reference.
	fieldsSize = 8 + 4 + 4 + 4 + 8
	entrySize  = keySize + fieldsSize
	// mergeRatio is how many times as long as the newer ones a layer is at least. So n entries lie in about log n layers,
	// and an entry is written again about as often.
	mergeRatio = 4
	// buffered is how many bytes of values are read and written at once.
	buffered = 256 << 10
)

// layer is a file of entries that one run has written, of its own and of older layers.
type layer struct {
	Generation uint32 // of the run
	Seed       uint32 // of the checksums
	Count      uint64 // entries
	Values     int64  // offset of the values, which lie in the order of their keys

	file    *cachefile.Plain
	pages   cachefile.Pages
	keys    cachefile.Section
	firsts  []uint64  // beginning of the first key of each page
	lookups sync.Pool // *cachefile.Page: neighbours in the tree are neighbours here
}

// layerDigits is the length of a layer's name.
const layerDigits = 8

func (l *layer) name() string { return fmt.Sprintf("%0*x", layerDigits, l.Generation) }

// entry is what a layer has under a key, beside the value.
type entry struct {
	off    int64 // of the value
	length uint32
	sum    uint32 // of the value: see layer.sum
	writer uint32 // generation
	ref    Ref
}

func appendEntry(dst, key []byte, e *entry) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, key...), uint64(e.off))
	for _, n := range [...]uint32{e.length, e.sum, e.writer} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(e.ref))
}

// parseEntry decodes what follows the key.
func parseEntry(p []byte) entry {
	n := func(i int) uint32 { return binary.LittleEndian.Uint32(p[i:]) }
	return entry{int64(binary.LittleEndian.Uint64(p)), n(8), n(12), n(16), Ref(binary.LittleEndian.Uint64(p[20:]))}
}

// open opens the file. The error wraps cachefile.ErrDamaged if it is none.
func (l *layer) open(dir string, io localfs.IOContext) (err error) {
	l.file, err = cachefile.OpenRead(filepath.Join(dir, l.name()), io)
	if errors.Is(err, os.ErrNotExist) {
		return lost(err)
	}
	if err != nil {
		return err
	}
	l.pages = cachefile.Pages{Read: l.file.ReadCached, Seed: l.Seed}
	l.keys = cachefile.Section{Size: entrySize, Count: l.Count}
	firsts := l.keys.Next(8, uint64(l.keys.Pages()))
	err = l.pages.Each(&firsts, 0, firsts.Count, func(entry []byte) error {
		l.firsts = append(l.firsts, cachefile.Prefix(entry))
		return nil
	})
	l.lookups.New = func() any { return new(cachefile.Page) }
	return lost(err)
}

// lost returns an error of reading as one that wraps cachefile.ErrDamaged.
func lost(err error) error {
	if err == nil || errors.Is(err, cachefile.ErrDamaged) || errors.Is(err, localfs.ErrStopped) {
		return err
	}
	return fmt.Errorf("%w: %w", cachefile.ErrDamaged, err)
}

func (l *layer) find(key *[keySize]byte) (e entry, found bool, err error) {
	q := l.lookups.Get().(*cachefile.Page)
	defer l.lookups.Put(q)
	at, err := l.pages.Find(q, &l.keys, l.firsts, key[:])
	if err != nil || at == nil {
		return e, false, lost(err)
	}
	return parseEntry(at), true, nil
}

// value returns the value of an entry, over buf if that is large enough.
func (l *layer) value(e *entry, buf []byte) ([]byte, error) {
	value := slices.Grow(buf[:0], int(e.length))[:e.length]
	if len(value) > 0 {
		if _, err := l.file.ReadCached(value, e.off); err != nil {
			return nil, lost(err)
		}
	}
	return value, l.check(e, value)
}

// sum is the checksum of a value at an offset, as that of a page.
func (l *layer) sum(off int64, value []byte) uint32 { return sum(l.Seed^uint32(off), value) }

func (l *layer) check(e *entry, value []byte) error {
	if l.sum(e.off, value) != e.sum {
		return fmt.Errorf("value of a directory: %w", cachefile.ErrDamaged)
	}
	return nil
}

// read yields all entries of the layer, which it reads sequentially: what appendEntry appends, and behind it the value.
func (l *layer) read() extsort.Source {
	values := bufio.NewReaderSize(io.NewSectionReader(l.file, l.Values, 1<<62), buffered)
	page, n := &cachefile.Page{}, uint64(0)
	var line []byte
	return func() (_, _ []byte, ok bool, err error) {
		if n == l.Count {
			return nil, nil, false, nil
		}
		at, err := l.pages.Entry(page, &l.keys, n)
		if err != nil {
			return nil, nil, false, lost(err)
		}
		n++
		e := parseEntry(at[keySize:])
		line = slices.Grow(append(line[:0], at[keySize:]...), int(e.length))[:fieldsSize+int(e.length)]
		if _, err := io.ReadFull(values, line[fieldsSize:]); err != nil {
			return nil, nil, false, lost(err)
		}
		if err := l.check(&e, line[fieldsSize:]); err != nil {
			return nil, nil, false, err
		}
		return at[:keySize], line, true, nil
	}
}

// merge writes a layer of what a batch has, and of the newest layers that are not much longer, in whose place it comes.
// What does not count is left out: entries of deleted directories, and of snapshots that are gone.
func (c *Cache) merge(s *state, b *Batch) error {
	keep, most := len(s.Layers), b.count
	for keep > 0 && s.Layers[keep-1].Count < mergeRatio*most {
		keep--
		most += s.Layers[keep].Count
	}
	var older []extsort.Source
	for _, l := range s.Layers[keep:] {
		older = append(older, l.read())
	}
	all, err := extsort.Merge(slices.Concat(older, b.sources())...)
	if err != nil {
		return err
	}
	made := &layer{Generation: s.Generation, Seed: cachefile.Seed()}
	s.Layers = append(s.Layers[:keep], made)
	if err := made.write(c.dir, c.io, s, all, len(older), most); err != nil {
		return err
	}
	return made.open(c.dir, c.io)
}

// write writes the file, of at most so many entries. The first older sources are of layers, the others of a batch.
func (l *layer) write(dir string, ctx localfs.IOContext, s *state, all *extsort.Merger, older int, most uint64) (
	err error) {
	f, err := cachefile.Create(dir, tempPrefix, ctx)
	if err != nil {
		return err
	}
	defer func() { err = f.Finish(filepath.Join(dir, l.name()), err) }()
	keys := cachefile.Section{Size: entrySize, Count: most}
	firsts := keys.Next(8, uint64(keys.Pages()))
	l.Values = int64(firsts.First+firsts.Pages()) * cachefile.PageSize
	w := cachefile.NewPageWriter(f, 0, l.Seed, 0)
	values := bufio.NewWriterSize(io.NewOffsetWriter(f, l.Values), buffered)
	end := l.Values
	var prefixes, line []byte
	for {
		key, value, ok, err := all.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		e := entry{writer: s.Generation, ref: s.Next}
		if all.Source() < older {
			e, value = parseEntry(value), value[fieldsSize:]
		} else {
			s.Next++
		}
		if _, counts := s.snapshotOf(&e); !counts && s.live != nil {
			continue
		}
		e.off, e.length, e.sum = end, uint32(len(value)), l.sum(end, value)
		if line = appendEntry(line[:0], key, &e); w.Add(line) {
			prefixes = append(prefixes, line[:8]...)
		}
		_, _ = values.Write(value) // Flush returns the first error
		end += int64(len(value))
		l.Count++
	}
	w.End()
	w.AddAll(prefixes, 8)
	return cmp.Or(w.Flush(), values.Flush()) // most often both have the same error
}
