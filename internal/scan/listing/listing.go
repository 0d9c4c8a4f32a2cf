// Package listing writes down the names in a directory, to be read again in a later run if the directory is the same by
// then: its Stamp, which is written with them, and a checksum say so. Names are in the order of their bytes, each without
// what it has in common with the one before.
//
// The package refuses to know where listings are kept, and when a stamp can be believed.
package listing

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Most is the size in bytes of the longest listing. It holds some 4000 names; to read those again costs little beside looking
// at each of them.
const Most = 64 << 10

// Stamp is the status of a directory by which it is known again, and the mount through which it was seen. On the file systems that localfs.FSInfo.Dated speaks of,
// no name is added, removed or renamed without moving Changed. The rest is asked for because it costs nothing.
type Stamp struct {
	Mount, Dev, Ino, Size, Links uint64
	Modified, Changed            tree.Time
}

// Exact reports whether Changed looks like a moment that a clock has told. One of full seconds comes from a file system that
// keeps no more than those, or from whoever made its image.
func (s *Stamp) Exact() bool { return s.Changed.Nsec != 0 }

// append appends the stored form of s. None is the beginning of another one.
func (s *Stamp) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, s.Mount)
	dst = binary.AppendUvarint(dst, s.Dev)
	dst = binary.AppendUvarint(dst, s.Ino)
	dst = binary.AppendUvarint(dst, s.Size)
	dst = binary.AppendUvarint(dst, s.Links)
	for _, t := range [...]tree.Time{s.Modified, s.Changed} {
		dst = binary.AppendVarint(dst, t.Sec)
		dst = binary.LittleEndian.AppendUint32(dst, t.Nsec)
	}
	return dst
}

// sumSize is the length of the checksum in bytes, in front of all.
const sumSize = 4

func sum(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// Writer makes one listing.
type Writer struct {
	buf  []byte
	last []byte
	ino  uint64
	bad  bool
}

// Begin starts a listing of a directory, and forgets an earlier one.
func (w *Writer) Begin(s *Stamp) {
	w.buf = s.append(append(w.buf[:0], make([]byte, sumSize)...))
	w.last, w.ino, w.bad = w.last[:0], 0, false
}

// The first byte of a name: how many bytes it shares with the one before, above how many follow. The greatest number of each
// says that the rest of it follows.
const (
	lengthBits = 4
	lengthMost = 1<<lengthBits - 1
	// typeBits hold a tree.Type, below the difference of inode numbers.
	typeBits = 3
)

// Add adds the next name. They come in ascending order. Type and inode number are those that the directory tells, hints for
// whoever looks at the objects: 0 is a type that it does not tell.
func (w *Writer) Add(name []byte, typ tree.Type, ino uint64) {
	if w.bad {
		return
	}
	if len(w.buf) > Most || typ >= 1<<typeBits || !follows(w.last, name) {
		w.bad = true
		return
	}
	shared := 0
	for shared < len(w.last) && shared < len(name) && w.last[shared] == name[shared] {
		shared++
	}
	rest := len(name) - shared
	w.buf = append(w.buf, byte(min(shared, lengthMost)<<lengthBits|min(rest, lengthMost)))
	if shared >= lengthMost {
		w.buf = binary.AppendUvarint(w.buf, uint64(shared-lengthMost))
	}
	if rest >= lengthMost {
		w.buf = binary.AppendUvarint(w.buf, uint64(rest-lengthMost))
	}
	w.buf = append(w.buf, name[shared:]...)
	step := ino - w.ino
	step = step<<1 ^ uint64(int64(step)>>63) // small numbers for small steps back, too
	w.bad = step >= 1<<(64-typeBits)
	w.buf = binary.AppendUvarint(w.buf, step<<typeBits|uint64(typ))
	w.last, w.ino = append(w.last[:0], name...), ino
}

// follows reports whether a directory can hold name behind last.
func follows(last, name []byte) bool {
	return bytes.Compare(last, name) < 0 && bytes.IndexByte(name, '/') < 0 && bytes.IndexByte(name, 0) < 0 &&
		string(name) != "." && string(name) != ".."
}

// End returns the listing, valid until the next Begin; nil if it is longer than Most, or if there were names that no directory
// can have.
func (w *Writer) End() []byte {
	if w.bad || len(w.buf) > Most {
		return nil
	}
	binary.LittleEndian.PutUint32(w.buf, sum(w.buf[sumSize:]))
	return w.buf
}

// Read reads what a Writer made of a directory with the stamp s. Names go to the end of arena, which is returned; yield learns
// where in it. It reports false if the listing is of another directory or of another time, or damaged: then what was
// yielded means nothing.
func Read(p []byte, s *Stamp, arena []byte, yield func(off, n int, typ tree.Type, ino uint64)) ([]byte, bool) {
	var room [96]byte
	stamp := s.append(room[:0])
	if len(p) < sumSize || !bytes.HasPrefix(p[sumSize:], stamp) || binary.LittleEndian.Uint32(p) != sum(p[sumSize:]) {
		return arena, false
	}
	r := reader{p: p[sumSize+len(stamp):]}
	last, ino := len(arena), uint64(0)
	for len(r.p) > 0 {
		head := int(r.byte())
		shared, rest := r.length(head>>lengthBits), r.length(head&lengthMost)
		if r.bad || shared > len(arena)-last || rest > len(r.p) {
			return arena, false
		}
		at := len(arena)
		arena = append(arena, arena[last:last+shared]...)
		arena = append(arena, r.p[:rest]...)
		r.p = r.p[rest:]
		step := r.uvarint()
		typ := tree.Type(step & (1<<typeBits - 1))
		step >>= typeBits
		ino += step>>1 ^ -(step & 1)
		if r.bad || !follows(arena[last:at], arena[at:]) {
			return arena, false
		}
		yield(at, len(arena)-at, typ, ino)
		last = at
	}
	return arena, true
}

// reader takes a listing apart. bad says that it ended too early.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) byte() byte {
	c := r.p[0]
	r.p = r.p[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.p = r.p[n:]
	return v
}

// length returns the length that a half of the first byte of a name begins.
func (r *reader) length(n int) int {
	if n < lengthMost {
		return n
	}
	more := r.uvarint()
	if more > Most {
		r.bad = true
		return 0
	}
	return n + int(more)
}
