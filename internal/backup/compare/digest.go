package compare

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Digest has 128 bits, enough that no two directories of a machine share one by chance.
type Digest [16]byte

// CacheEntry is what the directory cache keeps of a directory.
type CacheEntry struct {
	Stat    Digest // over the status of its entries
	Subtree Digest // over Stat and the trees of its subdirectories
	Tree    format.ID
}

// cacheEntrySize is the length of a CacheEntry in bytes.
const cacheEntrySize = 16 + 16 + format.IDSize

func (c *CacheEntry) append(dst []byte) []byte {
	dst = append(dst, c.Stat[:]...)
	dst = append(dst, c.Subtree[:]...)
	return append(dst, c.Tree[:]...)
}

// parseCacheEntry reads what append wrote; ok is false for anything else.
func parseCacheEntry(p []byte) (c CacheEntry, ok bool) {
	if len(p) != cacheEntrySize {
		return CacheEntry{}, false
	}
	copy(c.Stat[:], p)
	copy(c.Subtree[:], p[16:])
	copy(c.Tree[:], p[32:])
	return c, true
}

// OptionsDigest digests the options that affect the content of a tree: a digest made under other options must not
// match. Rules are not among them: excluded entries are not digested, and the others stay valid when rules change.
func OptionsDigest(serialization uint8, switches ...bool) Digest {
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

// levelsTogether is how many levels of directories share a key prefix: with eight directories in each, 584 keys of some
// 110 bytes, which is what the kernel reads ahead at once.
const levelsTogether = 3

// Digester digests directories under one set of options. It belongs to one goroutine at a time.
type Digester struct {
	options Digest
	buf     []byte
}

// NewDigester returns a Digester.
func NewDigester(options Digest) *Digester { return &Digester{options: options} }

// maxKept is how much memory a Digester keeps for the next directory.
const maxKept = 256 << 10

func (s *Digester) keep(buf []byte) {
	if s.buf = buf[:0]; cap(buf) > maxKept {
		s.buf = nil
	}
}

// Key is the key of a directory in the cache: 96 bits of a digest of its path, behind a prefix of 32 bits that it
// shares with the directories around it. The walk goes from neighbour to neighbour and so finds their keys in the same
// pages of the cache; with random keys each lookup among 2.5 million directories would read another part of the file.
func (s *Digester) Key(d *scan.Directory) Digest {
	s.buf = append(s.buf[:0], s.options[:]...)
	if d.Parent == nil {
		s.buf = append(s.buf, '/')
	}
	s.buf = d.AppendPath(s.buf)
	end := len(s.buf)
	if d.Picked { // whole, or with other sources below it, it is another directory
		for i := range d.Entries {
			s.buf = append(append(s.buf, 0), d.Entries[i].Name...)
		}
	}
	key := sum(s.buf)
	binary.BigEndian.PutUint32(key[:], neighbourhood(s.buf[len(s.options):end]))
	return key
}

// neighbourhood is a hash of the ancestor whose depth is the next lower multiple of levelsTogether.
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

// Stat digests the status of the entries of d. racy reports that the timestamp of one of them is not safe.
func (s *Digester) Stat(d *scan.Directory) (stat Digest, racy bool) {
	buf := append(slices.Grow(s.buf[:0], 32+min(len(d.Entries), maxKept/104)*104), s.options[:]...)
	if d.Excluded {
		buf = append(buf, 1)
	}
	started := tree.TimeOf(d.Started)
	for i := range d.Entries {
		e := &d.Entries[i]
		buf = appendStatus(buf, e, d.FS.StableInodes)
		if e.Dataless || !scan.Safe(e.Changed(), started) { // its content may come back with the same times
			racy = true
		}
	}
	s.keep(buf)
	return sum(buf), racy
}

// Subtree adds the trees of n subdirectories, in their order, to a stat digest.
func (s *Digester) Subtree(stat Digest, n int, tree func(i int) *format.ID) Digest {
	buf := append(s.buf[:0], stat[:]...)
	for i := range n {
		buf = append(buf, tree(i)[:]...)
	}
	s.keep(buf)
	return sum(buf)
}

func appendStatus(dst []byte, e *scan.Entry, inodes bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.Name)))
	dst = append(dst, e.Name...)
	mount, fs := byte(0), FS(e)
	switch {
	case fs != 0:
		mount = 2
	case e.Mount():
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
	if fs != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, fs)
	}
	return dst
}

func appendTime(dst []byte, t tree.Time) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Sec))
	return binary.LittleEndian.AppendUint32(dst, t.Nsec)
}

func sum(p []byte) (s Digest) {
	full := blake3.Sum256(p)
	copy(s[:], full[:])
	return s
}
