package cachefile

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
)

// What lookups read lies in pages: the runs of the hash cache, the list of a temporary index, and the entries of the
// directory cache. A backup relies on their content instead of storing a blob, so each page has a checksum. It covers
// the number of the page, and begins with a random number of the file, which detects a page of a removed file that
// reappeared.
const (
	PageSize = 4096                // bytes
	PageHead = 4 + 4               // checksum, and the number of the page
	PageRoom = PageSize - PageHead // for entries

	// pagesBuffered is how many bytes of pages are written at once.
	pagesBuffered = 256 << 10
)

func pageSum(seed uint32, page []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), page[4:])
}

// Seed returns a random number for the checksums of a file.
func Seed() uint32 {
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails
	return binary.LittleEndian.Uint32(seed[:])
}

// PageWriter writes pages one after the other.
type PageWriter struct {
	to   *bufio.Writer
	seed uint32
	n    uint32 // of the page
	page []byte // as far as it is filled
	Err  error  // the first one
}

// NewPageWriter returns a writer of pages from number first on. Page 0 is at offset base.
func NewPageWriter(to io.WriterAt, base int64, seed, first uint32) *PageWriter {
	at := io.NewOffsetWriter(to, base+int64(first)*PageSize)
	w := &PageWriter{to: bufio.NewWriterSize(at, pagesBuffered), seed: seed, n: first}
	w.page = make([]byte, PageHead, PageSize)
	return w
}

// Add adds an entry, and reports whether it is the first one of a page.
func (w *PageWriter) Add(entry []byte) (first bool) {
	if len(w.page)+len(entry) > PageSize {
		w.End()
	}
	first = len(w.page) == PageHead
	w.page = append(w.page, entry...)
	return first
}

// AddAll adds a section of entries of one size.
func (w *PageWriter) AddAll(entries []byte, size int) {
	for entry := range slices.Chunk(entries, size) {
		w.Add(entry)
	}
	w.End()
}

// End ends a section: the next entry begins a page.
func (w *PageWriter) End() {
	if len(w.page) == PageHead {
		return
	}
	page := w.page[:PageSize] // what is left of it is never read
	binary.LittleEndian.PutUint32(page[4:], w.n)
	binary.LittleEndian.PutUint32(page, pageSum(w.seed, page))
	if _, err := w.to.Write(page); w.Err == nil {
		w.Err = err
	}
	w.page = w.page[:PageHead]
	w.n++
}

// Flush ends the last section and writes everything.
func (w *PageWriter) Flush() error {
	w.End()
	if w.Err == nil {
		w.Err = w.to.Flush()
	}
	return w.Err
}

// Pages reads what a PageWriter has written.
type Pages struct {
	Read    func(p []byte, off int64) (int, error)
	Base    int64 // offset of page 0
	Seed    uint32
	Private bool // only this process has the file, so checksums are not compared: that takes as long as the read
}

// Page is the buffer of one page, which keeps it until another one is loaded.
type Page struct {
	Bytes  [PageSize]byte
	loaded bool
}

func (q *Page) number() uint32 { return binary.LittleEndian.Uint32(q.Bytes[4:]) }

// Load loads a page.
func (p *Pages) Load(q *Page, n uint32) error {
	if q.loaded && q.number() == n {
		return nil
	}
	q.loaded = false
	if read, err := p.Read(q.Bytes[:], p.Base+int64(n)*PageSize); read < PageSize {
		return fmt.Errorf("read page %d: %w", n, err)
	}
	if q.number() != n || !p.Private && binary.LittleEndian.Uint32(q.Bytes[:]) != pageSum(p.Seed, q.Bytes[:]) {
		return fmt.Errorf("page %d: %w", n, ErrDamaged)
	}
	q.loaded = true
	return nil
}

// Section is entries of one size in pages of their own.
type Section struct {
	First uint32 // page
	Size  int    // of an entry
	Count uint64
}

func (s *Section) perPage() uint64 { return uint64(PageRoom / s.Size) }

// Pages returns how many pages the section has.
func (s *Section) Pages() uint32 { return uint32((s.Count + s.perPage() - 1) / s.perPage()) }

// Next returns the section behind s.
func (s *Section) Next(size int, count uint64) Section {
	return Section{s.First + s.Pages(), size, count}
}

// entries loads a page of a section, counted from its first one, and returns the entries.
func (p *Pages) entries(q *Page, s *Section, n uint32) ([]byte, error) {
	left := s.Count - uint64(n)*s.perPage()
	return q.Bytes[PageHead:][:min(left, s.perPage())*uint64(s.Size)], p.Load(q, s.First+n)
}

// Entry returns one entry.
func (p *Pages) Entry(q *Page, s *Section, i uint64) ([]byte, error) {
	in, err := p.entries(q, s, uint32(i/s.perPage()))
	if err != nil {
		return nil, err
	}
	return in[i%s.perPage()*uint64(s.Size):][:s.Size], nil
}

// Each visits the entries from a number on, up to another one.
func (p *Pages) Each(s *Section, from, end uint64, visit func(entry []byte) error) error {
	q := &Page{}
	for i := from; i < end; i++ {
		entry, err := p.Entry(q, s, i)
		if err == nil {
			err = visit(entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget makes the next use read the page again: it may be one of another file.
func (q *Page) Forget() { q.loaded = false }

// Find returns what follows a key in a section whose entries begin with keys in ascending order; nil: it is not there.
// prefixes has the beginning of the first key of each page.
func (p *Pages) Find(q *Page, s *Section, prefixes []uint64, key []byte) ([]byte, error) {
	prefix := Prefix(key)
	// The key is in the last page whose prefix is not greater, or in an earlier one with an equal prefix.
	for n := sort.Search(len(prefixes), func(i int) bool { return prefixes[i] > prefix }) - 1; n >= 0; n-- {
		in, err := p.entries(q, s, uint32(n))
		if err != nil {
			return nil, err
		}
		at, found := sort.Find(len(in)/s.Size, func(i int) int { return bytes.Compare(key, in[i*s.Size:][:len(key)]) })
		if found {
			return in[at*s.Size:][len(key):s.Size], nil
		}
		if prefixes[n] < prefix {
			break
		}
	}
	return nil, nil
}

// Prefix returns the first bytes of a key, which nearly always decide a comparison.
func Prefix(key []byte) uint64 { return binary.BigEndian.Uint64(key) }
