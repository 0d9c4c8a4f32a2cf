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
	"math/bits"
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

// span is a part of the file.
type span struct{ off, size int64 }

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
	b.sort()
	w := bufio.NewWriterSize(io.NewOffsetWriter(r.to, r.end), writeBuffer)
	size := int64(0)
	var head []byte
	for key, value := range b.all() {
		head = binary.AppendUvarint(append(head[:0], key...), uint64(len(value)))
		_, _ = w.Write(head) // bufio keeps the first error, and Flush returns it
		_, _ = w.Write(value)
		size += int64(len(head) + len(value))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	r.runs = append(r.runs, span{r.end, size})
	r.end += size
	return nil
}

// Merger yields the entries of all runs by ascending key. If several runs have a key, the last run counts.
type Merger struct {
	heads heads
	last  []byte // key of the entry that was returned last
	begun bool
}

// Merge begins to merge the runs, and the entries of a buffer as the last run.
func (r *Runs) Merge(rest *Buffer) (*Merger, error) {
	buffer := min(max(mergeBuffers/max(len(r.runs), 1), minBuffer), maxBuffer)
	m := &Merger{last: make([]byte, r.keySize)}
	rest.sort()
	if h := (&head{buffer: rest, run: len(r.runs)}); h.take() {
		m.heads = append(m.heads, h)
	}
	for i, s := range r.runs {
		h := &head{
			from: bufio.NewReaderSize(io.NewSectionReader(r.from, s.off, s.size), buffer),
			left: s.size, run: i, key: make([]byte, r.keySize),
		}
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
	copy(m.last, m.heads[0].key)
	return m.last, m.heads[0].value, true, nil
}

// head is the current entry of a run.
type head struct {
	from   *bufio.Reader
	left   int64   // bytes of the run
	buffer *Buffer // the run, if it lies in memory
	at     int     // of its entries
	run    int
	first  uint64 // bytes of the key
	key    []byte
	value  []byte
}

// advance reads the next entry of the run and reports whether there is one.
func (h *head) advance() (more bool, err error) {
	if h.buffer != nil {
		return h.take(), nil
	}
	if h.left <= 0 {
		return false, nil
	}
	size := uint64(0)
	if _, err = io.ReadFull(h.from, h.key); err == nil {
		size, err = binary.ReadUvarint(h.from)
	}
	if err == nil {
		if uint64(cap(h.value)) < size {
			h.value = make([]byte, size)
		}
		h.value = h.value[:size]
		_, err = io.ReadFull(h.from, h.value)
	}
	if err != nil {
		return false, fmt.Errorf("read temporary file: %w", err)
	}
	h.left -= int64(len(h.key)+len(h.value)) + int64(uvarintLen(size))
	h.first = binary.BigEndian.Uint64(h.key)
	return true, nil
}

// take is advance for a run in memory.
func (h *head) take() (more bool) {
	if more = h.at < h.buffer.Len(); more {
		e := &h.buffer.entries[h.at]
		h.first, h.key, h.value = e.first, h.buffer.key(e), h.buffer.value(e)
		h.at++
	}
	return more
}

func uvarintLen(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }

// heads is a heap by key; of equal keys, the entry of the last run comes first.
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
	return a.run > b.run
}
