package dircache

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// layout is the version of the cache. One of another layout is replaced.
	layout     = 8
	stateName  = "state"
	tempPrefix = "tmp-" // a file that is being written
	noteName   = "dircache note"
	// bitsPerChunk is the number of references in one bitmap chunk of 4 KiB.
	bitsPerChunk = 1 << 15
	// fullBitmaps is how many of the newest live generations keep their whole bitmaps. Older ones lose the bits that a
	// newer generation repeats, so that bitmaps do not accumulate over hundreds of snapshots. Bits that only an old
	// generation has (a source that is backed up seldom) remain. If more than this many of the newest snapshots are
	// forgotten at once, some entries miss.
	fullBitmaps = 8
)

// state is what is known beside the entries. Its fields are written as JSON, behind a checksum. It is immutable.
type state struct {
	Layout     int
	Repo       [16]byte
	Generation uint32            // number of the last run that committed a Batch
	Next       Ref               // the next reference
	Writers    []*writer         // oldest first
	Layers     []*layer          // oldest first; of several entries with one key the newest counts
	Values     map[string][]byte // by name

	live   map[format.ID]bool // snapshots in the repository; nil: not known
	newest []*writer          // those that count, newest first
}

// writer is a run that committed a Batch.
type writer struct {
	Generation uint32
	Snapshot   format.ID
	Kept       map[uint32]bitmap // chunk of references -> bitmap of those entries of older runs that the snapshot contains
}

// readState reads a state. The error wraps cachefile.ErrDamaged if the file is none.
func readState(path string, io localfs.IOContext) (s *state, err error) {
	f, err := cachefile.OpenRead(path, io)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	p := make([]byte, f.Size())
	if _, err := f.ReadAt(p, 0); err != nil {
		return nil, lost(err)
	}
	if len(p) < 4 || binary.LittleEndian.Uint32(p) != sum(0, p[4:]) {
		return nil, fmt.Errorf("state of directories: %w", cachefile.ErrDamaged)
	}
	if err := json.Unmarshal(p[4:], &s); err != nil {
		return nil, lost(err)
	}
	if s == nil || slices.Contains(s.Layers, nil) || slices.Contains(s.Writers, nil) {
		return nil, fmt.Errorf("state of directories: %w", cachefile.ErrDamaged)
	}
	return s, nil
}

// write puts the state in the place of the one on the disk.
func (s *state) write(path string, io localfs.IOContext) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := cachefile.Create(filepath.Dir(path), tempPrefix, io)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(append(binary.LittleEndian.AppendUint32(nil, sum(0, text)), text...), 0)
	return f.Finish(path, err)
}

// sum continues a checksum.
func sum(before uint32, p []byte) uint32 {
	return crc32.Update(before, crc32.MakeTable(crc32.Castagnoli), p)
}

func (s *state) setValue(name string, value []byte) {
	if s.Values == nil {
		s.Values = make(map[string][]byte)
	}
	if s.Values[name] = slices.Clone(value); value == nil {
		delete(s.Values, name)
	}
}

// count lists the writers that count.
func (s *state) count() {
	s.newest = nil
	for _, w := range slices.Backward(s.Writers) {
		if s.live[w.Snapshot] {
			s.newest = append(s.newest, w)
		}
	}
}

// close closes the layers that another state does not have, and returns them.
func (s *state) close(but *state) (gone []*layer) {
	for _, l := range s.Layers {
		if but == nil || !slices.Contains(but.Layers, l) {
			gone = append(gone, l)
			if l.file != nil {
				_ = l.file.Close()
			}
		}
	}
	return gone
}

// lookup returns the newest entry under a key, if it counts.
func (s *state) lookup(key *[16]byte, buf []byte) (hit Hit, ok bool, err error) {
	for _, l := range slices.Backward(s.Layers) {
		e, found, err := l.find(key)
		if err != nil {
			return Hit{}, false, err
		}
		if !found {
			continue
		}
		if hit.Snapshot, ok = s.snapshotOf(&e); ok {
			hit.Ref = e.ref
			hit.Value, err = l.value(&e, buf)
		}
		return hit, ok, err
	}
	return Hit{}, false, nil
}

// snapshotOf returns a live snapshot that contains the tree of e: that of its writer, or the newest that kept it.
func (s *state) snapshotOf(e *entry) (format.ID, bool) {
	older := func(w *writer, generation uint32) int { return cmp.Compare(generation, w.Generation) }
	n, found := slices.BinarySearchFunc(s.newest, e.writer, older)
	if found {
		return s.newest[n].Snapshot, true
	}
	for _, w := range s.newest[:n] {
		if w.Kept[uint32(e.ref/bitsPerChunk)].has(e.ref) {
			return w.Snapshot, true
		}
	}
	return format.ID{}, false
}

// bitmap is a chunk of a set of references.
type bitmap []byte

func (b bitmap) has(ref Ref) bool {
	i := int(ref % bitsPerChunk)
	return i/8 < len(b) && b[i/8]&(1<<(i%8)) != 0
}

// without returns the bits of b that another bitmap does not have; nil: there are none.
func (b bitmap) without(other bitmap) bitmap {
	left, some := slices.Clone(b), false
	for i := range left {
		if i < len(other) {
			left[i] &^= other[i]
		}
		some = some || left[i] != 0
	}
	if !some {
		return nil
	}
	return left
}

// add adds a run, and removes those whose snapshots are gone: a snapshot never returns, as its name is the hash of its
// content, including the time. Of older runs it removes the bits that this one repeats.
func (s *state) add(snapshot format.ID, kept map[uint32]bitmap) {
	s.Generation++
	if s.live != nil {
		s.live = maps.Clone(s.live)
		s.live[snapshot] = true
		s.Writers = slices.DeleteFunc(s.Writers, func(w *writer) bool { return !s.live[w.Snapshot] })
		for i, w := range s.Writers[:max(0, len(s.Writers)-fullBitmaps)] {
			thin := &writer{w.Generation, w.Snapshot, make(map[uint32]bitmap)}
			for chunk, bits := range w.Kept {
				if left := bits.without(kept[chunk]); left != nil {
					thin.Kept[chunk] = left
				}
			}
			s.Writers[i] = thin
		}
	}
	s.Writers = append(s.Writers, &writer{s.Generation, snapshot, kept})
	s.count()
}
