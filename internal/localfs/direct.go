package localfs

import "sync/atomic"

const (
	// directUnit is the alignment and granularity of direct reads, which suits all disks. It is not smaller than a
	// block, so that reads of neighbouring files are adjacent.
	directUnit = 4096
	// maxDirectRead is the size up to which a direct read pays, since its data is copied once.
	maxDirectRead    = 64 << 10
	directBufferSize = 512 << 10
)

// directSupport caches whether a file system supports direct reads. It remembers the last answer of each kind, and is
// safe for concurrent use.
type directSupport struct{ yes, no atomic.Uint64 } // 1 + device number

// supports reports whether the file system dev supports direct reads. If that is unknown, it queries fd, after checked
// has confirmed that fd is a file there.
func (s *directSupport) supports(dev uint64, fd int, checked func() error) bool {
	if s.yes.Load() == 1+dev {
		return true
	}
	if s.no.Load() == 1+dev || checked() != nil {
		return false
	}
	if !supportsDirect(fd) {
		s.no.Store(1 + dev)
		return false
	}
	s.yes.Store(1 + dev)
	return true
}

// refused records an error of a direct read that shows a lack of support.
func (s *directSupport) refused(dev uint64, err error) {
	if isInvalid(err) {
		s.yes.CompareAndSwap(1+dev, 0)
		s.no.Store(1 + dev)
	}
}

// directBuffer is aligned memory outside the heap, allocated on first use. It belongs to one goroutine at a time.
type directBuffer struct {
	memory []byte
	used   int
}

// reset frees all parts for reuse.
func (m *directBuffer) reset() { m.used = 0 }

// take returns n bytes, rounded up to whole units; nil if there is not enough space.
func (m *directBuffer) take(n int) []byte {
	n = (n + directUnit - 1) / directUnit * directUnit
	if m.memory == nil {
		m.memory = allocPages()
	}
	if n > len(m.memory)-m.used {
		return nil
	}
	m.used += n
	return m.memory[m.used-n : m.used : m.used]
}

func (m *directBuffer) close() error {
	room := m.memory
	m.memory = nil
	return freePages(room)
}
