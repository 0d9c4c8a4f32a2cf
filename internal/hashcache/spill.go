package hashcache

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// readAhead is the buffer of each stretch while they are merged: 50 of them for 2.5 million directories.
const readAhead = 32 << 10

// spill is a file of sorted stretches of entries: key, length, value.
type spill struct {
	f    *os.File
	door Door
	ends []int64 // of each stretch
}

func (s *spill) write(entries []buffered, arena []byte) error {
	end := int64(0)
	if n := len(s.ends); n > 0 {
		end = s.ends[n-1]
	}
	w := bufio.NewWriterSize(&appender{s.door, s.f, end}, 256<<10)
	size := end
	var head []byte
	for i := range entries {
		e := &entries[i]
		head = binary.AppendUvarint(append(head[:0], e.key[:]...), uint64(e.len))
		_, _ = w.Write(head)                    // bufio keeps the first error
		_, _ = w.Write(arena[e.off:][:e.len])   // and Flush returns it
		size += int64(len(head)) + int64(e.len) // bytes
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	s.ends = append(s.ends, size)
	return nil
}

// stretch yields entries by ascending key.
type stretch interface {
	// next returns io.EOF at the end. The value is valid until the call after the next one.
	next() (key [16]byte, value []byte, err error)
}

// held is the stretch in memory.
type held struct {
	entries []buffered
	arena   []byte
}

func (h *held) next() (key [16]byte, value []byte, err error) {
	if len(h.entries) == 0 {
		return key, nil, io.EOF
	}
	e := h.entries[0]
	h.entries = h.entries[1:]
	return e.key, h.arena[e.off:][:e.len], nil
}

// stored is a stretch in the file.
type stored struct{ r *bufio.Reader }

func (s *stored) next() (key [16]byte, value []byte, err error) {
	if _, err = io.ReadFull(s.r, key[:]); err != nil {
		return key, nil, err // io.EOF between two entries
	}
	n, err := binary.ReadUvarint(s.r)
	if err != nil {
		return key, nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	value = make([]byte, n)
	if _, err = io.ReadFull(s.r, value); err != nil {
		return key, nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return key, value, nil
}

// merger yields the entries of all stretches by ascending key, each key once: of equals, that of the last stretch.
type merger struct{ heads []*head }

type head struct {
	from  stretch
	key   [16]byte
	value []byte
	age   int
}

// merged returns everything put so far. The caller has sorted the buffer.
func (b *DirBatch) merged() (*merger, error) {
	var from []stretch
	if b.spilled != nil {
		start := int64(0)
		for _, end := range b.spilled.ends {
			section := io.NewSectionReader(b.spilled.f, start, end-start)
			from = append(from, &stored{bufio.NewReaderSize(section, readAhead)})
			start = end
		}
	}
	from = append(from, &held{b.buffer.entries, b.buffer.arena})
	m := &merger{}
	for age, s := range from {
		h := &head{from: s, age: age}
		more, err := h.advance()
		if err != nil {
			return nil, err
		}
		if more {
			m.heads = append(m.heads, h)
		}
	}
	for i := len(m.heads)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	return m, nil
}

func (h *head) advance() (more bool, err error) {
	h.key, h.value, err = h.from.next()
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read temporary file: %w", err)
	}
	return true, nil
}

// next returns ok false at the end.
func (m *merger) next() (key [16]byte, value []byte, ok bool, err error) {
	if len(m.heads) == 0 {
		return key, nil, false, nil
	}
	key, value = m.heads[0].key, m.heads[0].value
	for len(m.heads) > 0 && m.heads[0].key == key {
		more, err := m.heads[0].advance()
		if err != nil {
			return key, nil, false, err
		}
		if !more {
			last := len(m.heads) - 1
			m.heads[0] = m.heads[last]
			m.heads = m.heads[:last]
		}
		m.sink(0)
	}
	return key, value, true, nil
}

// sink restores the heap below i.
func (m *merger) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heads); child++ {
			if m.heads[child].before(m.heads[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heads[i], m.heads[least] = m.heads[least], m.heads[i]
		i = least
	}
}

// before orders by key, and of equals the youngest first.
func (h *head) before(o *head) bool {
	if c := bytes.Compare(h.key[:], o.key[:]); c != 0 {
		return c < 0
	}
	return h.age > o.age
}
