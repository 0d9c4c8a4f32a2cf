package backup

import (
	"encoding/binary"
	"time"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// memo is what the hash cache remembers of a directory.
type memo struct {
	local [16]byte // over its entries
	full  [16]byte // over local and the trees of its subdirectories
	tree  format.ID
}

const memoSize = 16 + 16 + format.IDSize

func (m *memo) append(dst []byte) []byte {
	dst = append(dst, m.local[:]...)
	dst = append(dst, m.full[:]...)
	return append(dst, m.tree[:]...)
}

func parseMemo(p []byte) (m memo, ok bool) {
	if len(p) != memoSize {
		return memo{}, false
	}
	copy(m.local[:], p)
	copy(m.full[:], p[16:])
	copy(m.tree[:], p[32:])
	return m, true
}

// shape digests the options that shape a tree: a signature made under other options must not match. Rules are not among
// them: what they leave out is not among the entries that are signed, and what they do not touch stays valid when they
// change.
func (s *Source) shape() [16]byte {
	text := []byte("tidemark directory signature 1\x00")
	for _, on := range []bool{s.Reading.AccessTime, s.Comparing.IgnoreInode, s.Comparing.IgnoreCtime} {
		bit := byte(0)
		if on {
			bit = 1
		}
		text = append(text, bit)
	}
	text = append(text, byte(s.Reading.Serialization))
	return sum(text)
}

// sign computes the key under which j is remembered and the signature of its entries, and notices entries that changed
// so recently that a later change might leave no trace in their times.
func (j *job) sign(shape [16]byte) {
	path := append([]byte(nil), shape[:]...)
	j.key = sum(append(path, j.dir.Path()...))

	buf := make([]byte, 0, 32+len(j.dir.Entries)*104)
	buf = append(buf, shape[:]...)
	if j.dir.Closed {
		buf = append(buf, 1)
	}
	started := Moment(j.dir.Started)
	for i := range j.dir.Entries {
		e := &j.dir.Entries[i]
		buf = appendTuple(buf, e, j.dir.FS.StableInodes)
		if !settled(e.Changed(), started) {
			j.racy = true
		}
	}
	j.local = sum(buf)
}

func appendTuple(dst []byte, e *scan.Entry, inodes bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.Name)))
	dst = append(dst, e.Name...)
	mount := byte(0)
	if e.Mount {
		mount = 1
	}
	dst = append(dst, byte(e.Type), mount)
	dst = binary.LittleEndian.AppendUint16(dst, e.Mode)
	dst = binary.LittleEndian.AppendUint32(dst, e.UID)
	dst = binary.LittleEndian.AppendUint32(dst, e.GID)
	dst = appendTime(appendTime(dst, e.ModTime()), e.Changed())
	if inodes {
		dst = binary.LittleEndian.AppendUint64(dst, e.Ino)
	}
	if e.Type != tree.Dir { // of a directory, both follow from its entries
		dst = binary.LittleEndian.AppendUint64(dst, e.Size)
		dst = binary.LittleEndian.AppendUint32(dst, e.Links)
	}
	return dst
}

func appendTime(dst []byte, t tree.Time) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Sec))
	return binary.LittleEndian.AppendUint32(dst, t.Nsec)
}

// whole adds the trees of the subdirectories to the local signature.
func (j *job) whole() [16]byte {
	buf := append(make([]byte, 0, 16+len(j.children)*format.IDSize), j.local[:]...)
	for i := range j.children {
		buf = append(buf, j.children[i].tree[:]...)
	}
	return sum(buf)
}

func sum(p []byte) (s [16]byte) {
	full := blake3.Sum256(p)
	copy(s[:], full[:])
	return s
}

const (
	// A kernel stamps files with the time of its last tick: at HZ=100 that is up to 10 ms old. Doubled for safety.
	tick = 20_000_000
	// File systems without fractions of a second: FAT counts in steps of 2 s.
	coarseTick = 2_000_000_000
)

// settled reports whether an object whose ctime is changed had been left alone long enough at the moment looked for a
// later change to leave a trace: whoever changes it again within the same tick of the clock leaves none.
func settled(changed, looked tree.Time) bool {
	slack := int64(tick)
	if changed.Nsec == 0 {
		slack = coarseTick
	}
	nsec := int64(looked.Nsec) - slack
	for nsec < 0 {
		looked.Sec, nsec = looked.Sec-1, nsec+1e9
	}
	return before(changed, tree.Time{Sec: looked.Sec, Nsec: uint32(nsec)})
}

// before orders moments.
func before(a, b tree.Time) bool { return a.Sec < b.Sec || a.Sec == b.Sec && a.Nsec < b.Nsec }

// Moment converts a wall-clock time.
func Moment(t time.Time) tree.Time { return tree.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }
