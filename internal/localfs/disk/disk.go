// Package disk is what a reader can have of files below the page cache: where their contents lie on the device, and reads
// that bring them from there straight into memory of ours (O_DIRECT). The kernel needs no pages for such a read, which it
// would have to find, fill, copy from and throw away: a quarter of its work on a small file, and nothing of others has to
// leave for them.
//
// The package knows descriptors, numbers of file systems and memory. It refuses to know what is in the page cache, which
// files are worth it, and who reads: whoever asks sees to it that a file of which something is in memory is read from
// there, which costs less.
package disk

import "sync/atomic"

const (
	// Unit is what direct reads are aligned to and are multiples of: at least what any disk asks for, and no less than a
	// block, since otherwise the reads of neighbouring files were not neighbours on the disk.
	Unit = 4096
	// MostRead is the largest direct read of a small file that is worth it: what comes has to be copied once.
	MostRead = 64 << 10
	// Room is how many bytes Memory holds.
	Room = 512 << 10
)

// Systems remembers which file systems read directly. One is asked once, as long as it is not another one's turn. The zero
// value knows none; it may be used by several goroutines.
type Systems struct{ does, doesNot atomic.Uint64 } // 1 + number of the one last found so

// Read reports whether the file system dev reads directly; fd is a file of it if checked says so, which is asked where that
// is not known yet.
func (s *Systems) Read(dev uint64, fd int, checked func() error) bool {
	if s.does.Load() == 1+dev {
		return true
	}
	if s.doesNot.Load() == 1+dev || checked() != nil {
		return false
	}
	if !direct(fd) {
		s.doesNot.Store(1 + dev)
		return false
	}
	s.does.Store(1 + dev)
	return true
}

// Refused remembers that a direct read failed in a way that says that the file system makes none. There is none known that
// says it would and then does not.
func (s *Systems) Refused(dev uint64, err error) {
	if invalid(err) {
		s.does.CompareAndSwap(1+dev, 0)
		s.doesNot.Store(1 + dev)
	}
}

// Memory is what direct reads are made into: outside the heap, aligned. The zero value takes none before it is needed. It
// belongs to one goroutine at a time.
type Memory struct {
	room []byte
	used int
}

// Reset makes all of it free again. What was taken before must not be used any more.
func (m *Memory) Reset() { m.used = 0 }

// Take returns n bytes, rounded up to whole units; nil if so many are not free.
func (m *Memory) Take(n int) []byte {
	n = (n + Unit - 1) / Unit * Unit
	if m.room == nil {
		m.room = get()
	}
	if n > len(m.room)-m.used {
		return nil
	}
	m.used += n
	return m.room[m.used-n : m.used : m.used]
}

// Close gives the memory back to the system.
func (m *Memory) Close() error {
	room := m.room
	m.room = nil
	return release(room)
}
