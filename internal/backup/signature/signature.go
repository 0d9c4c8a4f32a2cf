// Package signature digests scanned directories, so that an unchanged one is recognised by one look-up, and decides which
// timestamps can be trusted for that. It knows nothing of how directories are stored.
package signature

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Signature is a digest of 128 bits: enough that no two directories of a machine ever share one by chance.
type Signature [16]byte

// Memo is what is remembered of a directory.
type Memo struct {
	Local Signature // over its entries
	Full  Signature // over Local and the trees of its subdirectories
	Tree  format.ID
}

// MemoSize is the length of a Memo in bytes.
const MemoSize = 16 + 16 + format.IDSize

// Append appends the stored form of m.
func (m *Memo) Append(dst []byte) []byte {
	dst = append(dst, m.Local[:]...)
	dst = append(dst, m.Full[:]...)
	return append(dst, m.Tree[:]...)
}

// ParseMemo reads what Append wrote; ok is false for anything else.
func ParseMemo(p []byte) (m Memo, ok bool) {
	if len(p) != MemoSize {
		return Memo{}, false
	}
	copy(m.Local[:], p)
	copy(m.Full[:], p[16:])
	copy(m.Tree[:], p[32:])
	return m, true
}

// Shape digests the options that shape a tree: a signature made under other options must not match. Rules are not among
// them: what they leave out is not among the entries that are signed, and what they do not touch stays valid when they
// change.
func Shape(serialization uint8, switches ...bool) Signature {
	text := append([]byte("tidemark directory signature 1\x00"), serialization)
	for _, on := range switches {
		bit := byte(0)
		if on {
			bit = 1
		}
		text = append(text, bit)
	}
	return sum(text)
}

// levelsTogether is how many levels of directories share the beginning of their keys: with eight directories in each, 584
// keys of some 110 bytes, what the kernel maps at one look.
const levelsTogether = 3

// Signer makes signatures of directories under one shape. It belongs to one goroutine at a time.
type Signer struct {
	shape Signature
	buf   []byte
}

// NewSigner returns a Signer for a shape.
func NewSigner(shape Signature) *Signer { return &Signer{shape: shape} }

// maxKept is how much memory a Signer keeps for the next directory.
const maxKept = 256 << 10

func (s *Signer) keep(buf []byte) {
	if s.buf = buf[:0]; cap(buf) > maxKept {
		s.buf = nil
	}
}

// Key is what a directory is remembered under: 96 bits of a digest, behind 32 that it has in common with the directories
// around it. A walk that goes from neighbour to neighbour then finds them in the same pages of a sorted cache. Keys
// without that, all random, make every look-up among 2.5 million directories touch another part of the file.
func (s *Signer) Key(d *scan.Directory) Signature {
	s.buf = append(s.buf[:0], s.shape[:]...)
	if d.Parent == nil {
		s.buf = append(s.buf, '/')
	}
	s.buf = d.AppendPath(s.buf)
	key := sum(s.buf)
	binary.BigEndian.PutUint32(key[:], neighbourhood(s.buf[len(s.shape):]))
	return key
}

// neighbourhood is a hash of the directory that stands for those up to levelsTogether levels below: the ancestor whose
// depth is the next lower multiple.
func neighbourhood(path []byte) uint32 {
	end, depth := 0, 0
	for at := bytes.IndexByte(path, '/'); at >= 0; depth++ {
		if depth%levelsTogether == 0 {
			end = at
		}
		next := bytes.IndexByte(path[at+1:], '/')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return crc32.ChecksumIEEE(path[:end])
}

// Local signs the entries of d. racy reports that one of them changed so recently that a later change might leave no
// trace in its times.
func (s *Signer) Local(d *scan.Directory) (local Signature, racy bool) {
	buf := append(slices.Grow(s.buf[:0], 32+min(len(d.Entries), maxKept/104)*104), s.shape[:]...)
	if d.Closed {
		buf = append(buf, 1)
	}
	started := Moment(d.Started)
	for i := range d.Entries {
		e := &d.Entries[i]
		buf = appendTuple(buf, e, d.FS.StableInodes)
		if !Settled(e.Changed(), started) {
			racy = true
		}
	}
	s.keep(buf)
	return sum(buf), racy
}

// Whole adds the trees of n subdirectories, in their order, to a local signature.
func (s *Signer) Whole(local Signature, n int, tree func(i int) *format.ID) Signature {
	buf := append(s.buf[:0], local[:]...)
	for i := range n {
		buf = append(buf, tree(i)[:]...)
	}
	s.keep(buf)
	return sum(buf)
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

func sum(p []byte) (s Signature) {
	full := blake3.Sum256(p)
	copy(s[:], full[:])
	return s
}

const (
	// Tick is how long a change may go without a new time. A kernel stamps files with the time of its last tick: at
	// HZ=100 that is up to 10 ms old. Doubled for safety.
	Tick = 20 * time.Millisecond
	// File systems without fractions of a second: FAT counts in steps of 2 s.
	coarseTick = 2_000_000_000
)

// Settled reports whether an object whose ctime is changed had been left alone long enough at the moment looked for a
// later change to leave a trace: whoever changes it again within the same tick of the clock leaves none.
func Settled(changed, looked tree.Time) bool {
	slack := int64(Tick)
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
