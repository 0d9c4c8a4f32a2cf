package index

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// What lookups read lies in pages: the whole file of a run, and the list of a Temporary. A backup relies on their
// content instead of storing a blob, so each page has a checksum. It covers the number of the page, and begins with a
// random number of the file, which detects a page of a removed file that reappeared.
const (
	pageSize = 4096
	pageHead = 4 + 4 // checksum, and the number of the page
	pageRoom = pageSize - pageHead
	// pagesBuffered is how many bytes of pages are written at once.
	pagesBuffered = 256 << 10
)

func pageSum(seed uint32, page []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), page[4:])
}

// pageWriter writes pages one after the other.
type pageWriter struct {
	to   *bufio.Writer
	seed uint32
	n    uint32 // of the page
	page []byte // as far as it is filled
	err  error  // the first one
}

func newPageWriter(to io.WriterAt, base int64, seed, first uint32) *pageWriter {
	at := io.NewOffsetWriter(to, base+int64(first)*pageSize)
	w := &pageWriter{to: bufio.NewWriterSize(at, pagesBuffered), seed: seed, n: first}
	w.page = make([]byte, pageHead, pageSize)
	return w
}

// add adds an entry, and reports whether it is the first one of a page.
func (w *pageWriter) add(entry []byte) (first bool) {
	if len(w.page)+len(entry) > pageSize {
		w.end()
	}
	first = len(w.page) == pageHead
	w.page = append(w.page, entry...)
	return first
}

// addAll adds a section of entries of one size.
func (w *pageWriter) addAll(entries []byte, size int) {
	for entry := range slices.Chunk(entries, size) {
		w.add(entry)
	}
	w.end()
}

// end ends a section: the next entry begins a page.
func (w *pageWriter) end() {
	if len(w.page) == pageHead {
		return
	}
	page := w.page[:pageSize] // what is left of it is never read
	binary.LittleEndian.PutUint32(page[4:], w.n)
	binary.LittleEndian.PutUint32(page, pageSum(w.seed, page))
	if _, err := w.to.Write(page); w.err == nil {
		w.err = err
	}
	w.page = w.page[:pageHead]
	w.n++
}

// flush ends the last section and writes everything.
func (w *pageWriter) flush() error {
	w.end()
	if w.err == nil {
		w.err = w.to.Flush()
	}
	return w.err
}

// pages reads what a pageWriter has written.
type pages struct {
	read    func(p []byte, off int64) (int, error)
	base    int64 // offset of page 0
	seed    uint32
	private bool // only this process has the file, so checksums are not compared: that takes as long as the read
}

// page is the buffer of one page, which keeps it until another one is loaded.
type page struct {
	bytes  [pageSize]byte
	loaded bool
}

func (q *page) number() uint32 { return binary.LittleEndian.Uint32(q.bytes[4:]) }

func (p *pages) load(q *page, n uint32) error {
	if q.loaded && q.number() == n {
		return nil
	}
	q.loaded = false
	if read, err := p.read(q.bytes[:], p.base+int64(n)*pageSize); read < pageSize {
		return fmt.Errorf("read page %d: %w", n, err)
	}
	if q.number() != n || !p.private && binary.LittleEndian.Uint32(q.bytes[:]) != pageSum(p.seed, q.bytes[:]) {
		return fmt.Errorf("page %d: %w", n, cachefile.ErrDamaged)
	}
	q.loaded = true
	return nil
}

// section is entries of one size in pages of their own.
type section struct {
	first uint32 // page
	size  int    // of an entry
	count uint64
}

func (s *section) perPage() uint64 { return uint64(pageRoom / s.size) }

// pages returns how many pages the section has.
func (s *section) pages() uint32 { return uint32((s.count + s.perPage() - 1) / s.perPage()) }

// entries loads a page of a section, counted from its first one, and returns the entries.
func (p *pages) entries(q *page, s *section, n uint32) ([]byte, error) {
	left := s.count - uint64(n)*s.perPage()
	return q.bytes[pageHead:][:min(left, s.perPage())*uint64(s.size)], p.load(q, s.first+n)
}

// entry returns one entry.
func (p *pages) entry(q *page, s *section, i uint64) ([]byte, error) {
	in, err := p.entries(q, s, uint32(i/s.perPage()))
	if err != nil {
		return nil, err
	}
	return in[i%s.perPage()*uint64(s.size):][:s.size], nil
}

// each visits the entries from a number on, up to another one.
func (p *pages) each(s *section, from, end uint64, visit func(entry []byte) error) error {
	q := &page{}
	for i := from; i < end; i++ {
		entry, err := p.entry(q, s, i)
		if err == nil {
			err = visit(entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// find returns what follows an ID in a section whose entries begin with IDs in ascending order; nil: it is not there.
// prefixes has the beginning of the first ID of each page.
func (p *pages) find(q *page, s *section, prefixes []uint64, id *format.ID) ([]byte, error) {
	prefix := prefixOf(id[:])
	// The ID is in the last page whose prefix is not greater, or in an earlier one with an equal prefix.
	for n := sort.Search(len(prefixes), func(i int) bool { return prefixes[i] > prefix }) - 1; n >= 0; n-- {
		in, err := p.entries(q, s, uint32(n))
		if err != nil {
			return nil, err
		}
		at, found := sort.Find(len(in)/s.size, func(i int) int { return bytes.Compare(id[:], in[i*s.size:][:format.IDSize]) })
		if found {
			return in[at*s.size:][format.IDSize:s.size], nil
		}
		if prefixes[n] < prefix {
			break
		}
	}
	return nil, nil
}
