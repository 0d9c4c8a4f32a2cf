package scan

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// A listing holds the names in a directory as the directory cache keeps them: a checksum, the stamp of the directory,
// and the names in the order of their bytes, each without the prefix it shares with the one before.

// maxListing is the size in bytes of the longest listing. It holds some 4000 names; reading more of them from the
// directory costs little beside the status of each.
const maxListing = 64 << 10

// stamp identifies a state of a directory: its status, and the mount through which it was seen. On file systems with
// localfs.FSInfo.Dated, adding, removing or renaming a name sets changed. The other fields cost nothing.
type stamp struct {
	mount, dev, ino, size, links uint64
	modified, changed            tree.Time
}

// exact reports whether changed has fractions of a second. Without them it comes from a file system that has none, or
// from the tool that made its image.
func (s *stamp) exact() bool { return s.changed.Nsec != 0 }

// append appends the stored form of s. None is a prefix of another one.
func (s *stamp) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, s.mount)
	dst = binary.AppendUvarint(dst, s.dev)
	dst = binary.AppendUvarint(dst, s.ino)
	dst = binary.AppendUvarint(dst, s.size)
	dst = binary.AppendUvarint(dst, s.links)
	for _, t := range [...]tree.Time{s.modified, s.changed} {
		dst = binary.AppendVarint(dst, t.Sec)
		dst = binary.LittleEndian.AppendUint32(dst, t.Nsec)
	}
	return dst
}

// sumSize is the length of the checksum in bytes.
const sumSize = 4

func checksum(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// listingWriter makes one listing after the other.
type listingWriter struct {
	buf  []byte
	last []byte
	ino  uint64
	bad  bool
}

// begin starts the listing of a directory. It overwrites the one before.
func (w *listingWriter) begin(s *stamp) {
	w.buf = s.append(append(w.buf[:0], make([]byte, sumSize)...))
	w.last, w.ino, w.bad = w.last[:0], 0, false
}

// The first byte of a name: how many bytes it shares with the one before, above how many follow. With the largest value
// of either, the rest of that number follows.
const (
	lengthBits = 4
	lengthMost = 1<<lengthBits - 1
	// typeBits hold a tree.Type, below the difference of inode numbers.
	typeBits = 3
)

// add adds the next name, in ascending order. Type and inode number are those in the directory; the walk uses them as
// hints. 0 is a type that the directory does not contain.
func (w *listingWriter) add(name []byte, typ tree.Type, ino uint64) {
	if w.bad {
		return
	}
	if len(w.buf) > maxListing || typ >= 1<<typeBits || !follows(w.last, name) {
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

// end returns the listing, valid until the next begin; nil if it is longer than maxListing, or has names that no
// directory can contain.
func (w *listingWriter) end() []byte {
	if w.bad || len(w.buf) > maxListing {
		return nil
	}
	binary.LittleEndian.PutUint32(w.buf, checksum(w.buf[sumSize:]))
	return w.buf
}

// readListing reads the listing of a directory with the stamp s. It appends the names to arena and calls yield with the
// place of each. It returns false if the listing has another stamp or is damaged; then what was yielded is void.
func readListing(p []byte, s *stamp, arena []byte, yield func(off, n int, typ tree.Type, ino uint64)) ([]byte, bool) {
	var room [96]byte
	prefix := s.append(room[:0])
	if len(p) < sumSize || !bytes.HasPrefix(p[sumSize:], prefix) ||
		binary.LittleEndian.Uint32(p) != checksum(p[sumSize:]) {
		return arena, false
	}
	r := wire.NewReader(p[sumSize+len(prefix):])
	last, ino := len(arena), uint64(0)
	for r.Len() > 0 {
		head := int(r.Byte())
		shared, rest := readLength(r, head>>lengthBits), r.Take(readLength(r, head&lengthMost))
		if r.Err() != nil || shared > len(arena)-last {
			return arena, false
		}
		at := len(arena)
		arena = append(arena, arena[last:last+shared]...)
		arena = append(arena, rest...)
		step := r.Uvarint()
		typ := tree.Type(step & (1<<typeBits - 1))
		step >>= typeBits
		ino += step>>1 ^ -(step & 1)
		if r.Err() != nil || !follows(arena[last:at], arena[at:]) {
			return arena, false
		}
		yield(at, len(arena)-at, typ, ino)
		last = at
	}
	return arena, true
}

// readLength returns a length that begins with n, which is half of the first byte of a name.
func readLength(r *wire.Reader, n int) int {
	if n == lengthMost {
		n += int(r.UvarintMax(maxListing))
	}
	return n
}
