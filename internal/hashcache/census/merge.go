package census

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// merge writes the list behind the stretches.
func (x *Index) merge() error {
	heads := make([]*head, 0, len(x.stretch))
	each := min(max(mergeBuffers/max(len(x.stretch), 1), mergeLeast), mergeMost)
	for age, s := range x.stretch {
		h := &head{from: bufio.NewReaderSize(io.NewSectionReader(x.file, s.off, int64(s.n)*recordSize), each), age: age}
		more, err := h.advance()
		if err != nil {
			return err
		}
		if more {
			heads = append(heads, h)
		}
	}
	for i := len(heads)/2 - 1; i >= 0; i-- {
		sink(heads, i)
	}
	x.base = (x.end + blockSize - 1) / blockSize * blockSize
	w := bufio.NewWriterSize(io.NewOffsetWriter(x.file, x.base), writeBuffer)
	var pad [blockSize - perBlock*recordSize]byte
	var last [recordSize]byte
	for len(heads) > 0 {
		h := heads[0]
		// Of equals the youngest comes first.
		if x.count == 0 || !bytes.Equal(last[:format.IDSize], h.record[:format.IDSize]) {
			last = h.record
			if x.count%perBlock == 0 {
				if x.count > 0 {
					_, _ = w.Write(pad[:])
				}
				x.fences = append(x.fences, headOf(last[:]))
			}
			_, _ = w.Write(last[:]) // bufio keeps the first error, and Flush returns it
			x.count++
		}
		more, err := h.advance()
		if err != nil {
			return err
		}
		if !more {
			heads[0] = heads[len(heads)-1]
			heads = heads[:len(heads)-1]
		}
		sink(heads, 0)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write blob index: %w", err)
	}
	x.stretch = nil
	return nil
}

// head is where a stretch is read.
type head struct {
	from   *bufio.Reader
	age    int
	first  uint64 // bytes of the ID
	record [recordSize]byte
}

func (h *head) advance() (more bool, err error) {
	_, err = io.ReadFull(h.from, h.record[:])
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read blob index: %w", err)
	}
	h.first = headOf(h.record[:])
	return true, nil
}

// before orders by ID, and of equals the youngest first.
func (h *head) before(o *head) bool {
	if h.first != o.first {
		return h.first < o.first
	}
	if c := bytes.Compare(h.record[:format.IDSize], o.record[:format.IDSize]); c != 0 {
		return c < 0
	}
	return h.age > o.age
}

// sink restores the heap below i.
func sink(heads []*head, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heads); child++ {
			if heads[child].before(heads[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		heads[i], heads[least] = heads[least], heads[i]
		i = least
	}
}
