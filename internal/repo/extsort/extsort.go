// Package extsort sorts key-value entries: a Buffer gathers them, Runs of full buffers lie in a temporary file, and a
// Merger merges these. Memory is bounded by the buffer and the read buffers of the runs.
package extsort

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

const (
	writeBuffer = 256 << 10
	// mergeBuffers is the memory in bytes that the runs share while they are merged. A single run has at least
	// minBuffer and at most maxBuffer.
	mergeBuffers = 8 << 20
	minBuffer    = 4 << 10
	maxBuffer    = 256 << 10
)

// Runs are sorted runs in a file. Keys have a fixed length of 8 bytes or more. It belongs to one goroutine at a time.
type Runs struct {
	to      io.WriterAt
	from    io.ReaderAt
	keySize int
	end     int64 // bytes written
	runs    []span
}

// span is a part of the file, with so many entries.
type span struct {
	off, size int64
	entries   int
}

// New returns no runs in an empty file, which is written and read separately.
func New(to io.WriterAt, from io.ReaderAt, keySize int) *Runs {
	return &Runs{to: to, from: from, keySize: keySize}
}

// Len returns the number of runs.
func (r *Runs) Len() int { return len(r.runs) }

// End returns the number of bytes that were written to the file.
func (r *Runs) End() int64 { return r.end }

// Append writes bytes of the caller between runs and returns their offset.
func (r *Runs) Append(p []byte) (off int64, err error) {
	off = r.end
	if _, err = r.to.WriteAt(p, off); err == nil {
		r.end += int64(len(p))
	}
	return off, err
}

// Write appends a run of the entries of a buffer.
func (r *Runs) Write(b *Buffer) error {
	next := b.source()
	w := bufio.NewWriterSize(io.NewOffsetWriter(r.to, r.end), writeBuffer)
	size := int64(0)
	var head []byte
	for {
		key, value, ok, _ := next()
		if !ok {
			break
		}
		head = binary.AppendUvarint(append(head[:0], key...), uint64(len(value)))
		_, _ = w.Write(head) // bufio keeps the first error, and Flush returns it
		_, _ = w.Write(value)
		size += int64(len(head) + len(value))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	r.runs = append(r.runs, span{r.end, size, b.Len()})
	r.end += size
	return nil
}

// Source yields entries by ascending key, each once. They are valid until the next call; ok is false at the end.
type Source func() (key, value []byte, ok bool, err error)

// Sources returns the runs, and the entries of a buffer as the last run.
func (r *Runs) Sources(rest *Buffer) (all []Source) {
	buffer := min(max(mergeBuffers/max(len(r.runs), 1), minBuffer), maxBuffer)
	for _, s := range r.runs {
		all = append(all, r.source(s, buffer))
	}
	return append(all, rest.source())
}

// source reads one run.
func (r *Runs) source(s span, buffer int) Source {
	from := bufio.NewReaderSize(io.NewSectionReader(r.from, s.off, s.size), buffer)
	key, value := make([]byte, r.keySize), []byte(nil)
	return func() (_, _ []byte, ok bool, err error) {
		if s.entries == 0 {
			return nil, nil, false, nil
		}
		s.entries--
		size := uint64(0)
		if _, err = io.ReadFull(from, key); err == nil {
			size, err = binary.ReadUvarint(from)
		}
		if err == nil {
			value = slices.Grow(value[:0], int(size))[:size]
			_, err = io.ReadFull(from, value)
		}
		if err != nil {
			return nil, nil, false, fmt.Errorf("read temporary file: %w", err)
		}
		return key, value, true, nil
	}
}

// Merger yields the entries of several sources by ascending key. If several sources have a key, the last one counts.
type Merger struct {
	heads heads
	last  []byte // key of the entry that was returned last
	begun bool
}

// Merge begins to merge sources.
func Merge(sources ...Source) (*Merger, error) {
	m := &Merger{}
	for i, next := range sources {
		h := &head{next: next, source: i}
		more, err := h.advance()
		if err != nil {
			return nil, err
		}
		if more {
			m.heads = append(m.heads, h)
		}
	}
	heap.Init(&m.heads)
	return m, nil
}

// Next returns the next entry, valid until the call after it; ok is false at the end.
func (m *Merger) Next() (key, value []byte, ok bool, err error) {
	for m.begun && len(m.heads) > 0 && bytes.Equal(m.heads[0].key, m.last) {
		more, err := m.heads[0].advance()
		if err != nil {
			return nil, nil, false, err
		}
		if more {
			heap.Fix(&m.heads, 0)
		} else {
			heap.Pop(&m.heads)
		}
	}
	if len(m.heads) == 0 {
		return nil, nil, false, nil
	}
	m.begun = true
	m.last = append(m.last[:0], m.heads[0].key...)
	return m.last, m.heads[0].value, true, nil
}

// Source returns the number of the source that has the entry of the last Next.
func (m *Merger) Source() int { return m.heads[0].source }

// head is the current entry of a source.
type head struct {
	next       Source
	source     int    // its number
	first      uint64 // bytes of the key
	key, value []byte
}

// advance reads the next entry and reports whether there is one.
func (h *head) advance() (more bool, err error) {
	if h.key, h.value, more, err = h.next(); more {
		h.first = binary.BigEndian.Uint64(h.key)
	}
	return more, err
}

// heads is a heap by key; of equal keys, the entry of the last source comes first.
type heads []*head

func (h heads) Len() int      { return len(h) }
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)   { *h = append(*h, x.(*head)) }

func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h heads) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.first != b.first {
		return a.first < b.first
	}
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.source > b.source
}
