package scan

import (
	"bytes"
	"math"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/scan/listing"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Memory knows what earlier walks found. Its methods are called by several workers at once, for one directory by one.
type Memory interface {
	// Recall returns the Listing that d had in an earlier walk, if the system has not been started anew since; nil if there
	// is none. It is called before the names of d are read. The answer may be in room, or in a larger one, which is returned.
	Recall(d *Directory, room []byte) (listing, larger []byte)
	// Same reports whether d, whose entries are known by now, is what it was in an earlier walk: names, times and all. If
	// not, it is called again in case that looking closer has brought up other entries.
	Same(d *Directory) bool
	// Renew reports whether a Listing is of use although the directory is the same.
	Renew() bool
	// Settled reports whether whatever changes an object after the moment looked gives it another time than changed.
	Settled(changed tree.Time, looked time.Time) bool
}

// recall takes the names of d from memory into s, sorted, if it is the directory that it was: s.guess says so. Whoever looks
// at them must still find each of them.
func (w *walk) recall(d *Directory, s *scratch) {
	if s.asked || w.opt.Memory == nil {
		return
	}
	s.asked, s.guess, s.seen = true, false, false
	s.listing, s.room = w.opt.Memory.Recall(d, s.room[:0])
	if len(s.listing) == 0 || !d.FS.Dated {
		return
	}
	stamp := d.stamp()
	s.found, s.order = s.found[:0], s.order[:0]
	s.leaf = true
	s.arena, s.guess = listing.Read(s.listing, &stamp, s.arena[:0], func(off, n int, typ tree.Type, ino uint64) {
		s.order = append(s.order, position{index: uint32(len(s.found))})
		s.found = append(s.found, found{off: uint32(off), len: uint32(n), typ: typ, ino: ino})
		s.leaf = s.leaf && typ != tree.Dir && typ != 0
	})
	s.text = string(s.arena)
}

// outside is recalled for a directory that holds no others, without opening it: if nothing is new there, there is no use
// for an open directory. It reports false if d has to be opened.
//
// In the place of d there may be another directory by now, or a symbolic link: then what was found is not the same, unless it
// was d, moved.
func (w *walk) outside(d *Directory, s *scratch) bool {
	if w.opt.Memory == nil || !d.FS.Dated || w.needs.TimeMachine {
		return false
	}
	w.recall(d, s)
	if !s.guess || !s.leaf {
		return false
	}
	state := d.state
	if !w.entries(d, s.text, s, true) {
		d.forget(state)
		return d.Err != nil
	}
	for i := range d.Entries {
		s.leaf = s.leaf && d.Entries[i].Type != tree.Dir
	}
	if s.leaf && w.same(d, s) {
		return true
	}
	s.seen = true
	return false
}

// stamp is the status of d as its parent found it, before d was opened.
func (d *Directory) stamp() listing.Stamp {
	if d.Parent == nil {
		return d.own
	}
	e := &d.Parent.Entries[d.Index]
	return listing.Stamp{
		Mount: d.FS.Mount, Dev: d.Dev, Ino: d.Ino, Size: e.Size, Links: uint64(e.Links), Modified: e.ModTime(), Changed: e.Changed(),
	}
}

// recalled fills d.Entries by the names that were recalled. It reports false if nothing came of that, and the names have to
// be read.
func (w *walk) recalled(d *Directory, s *scratch) bool {
	state := d.state
	switch {
	case s.seen: // from outside
		if st, err := d.dir.Fstat(); err != nil || d.stampOf(&st) != d.stamp() {
			d.forget(state)
			return false
		}
	case !w.entries(d, s.text, s, true):
		d.forget(state)
		return d.Err != nil
	case w.same(d, s):
		return true
	}
	// Something is new: on the way to reading it, it is little trouble to make sure of the names.
	if d.Err = w.names(d, s, false); d.Err == nil {
		s.sortNames()
		if again := s.write(d); bytes.Equal(again, s.listing) {
			d.Listing = bytes.Clone(again)
			return true
		}
	}
	d.forget(state)
	w.look(d, s)
	return true
}

// forget makes d what it was before its entries were known.
func (d *Directory) forget(state *rules.DirState) {
	d.Recycle()
	d.state, d.spent, d.Missed = state, false, 0
}

// same asks the memory about d.
func (w *walk) same(d *Directory, s *scratch) bool {
	defer s.clock.Enter(s.clock.Enter(report.Compare))
	return w.opt.Memory.Same(d)
}

// lostAndFound is where a repair puts what it finds, and does not tell when.
const lostAndFound = "lost+found"

// remember makes the Listing of d, whose names are in s, if it can be believed: the directory is known to have been the one
// that was looked at until its names were read, and to have been left alone for long enough.
func (w *walk) remember(d *Directory, s *scratch) {
	m := w.opt.Memory
	if m == nil || d.Err != nil || w.same(d, s) && !m.Renew() || !d.FS.Dated || d.Name == lostAndFound {
		return
	}
	stamp := d.stamp()
	if !stamp.Exact() || !m.Settled(stamp.Changed, d.Started) {
		return
	}
	st, err := d.dir.Fstat()
	// What is encrypted has other names for those who have no key.
	if err != nil || d.stampOf(&st) != stamp || st.Attr&localfs.AttrEncrypted != 0 {
		return
	}
	s.sortNames()
	d.Listing = bytes.Clone(s.write(d))
}

// write makes a listing of the names in s, which are sorted.
func (s *scratch) write(d *Directory) []byte {
	stamp := d.stamp()
	s.writer.Begin(&stamp)
	for _, pos := range s.order {
		f := &s.found[pos.index]
		s.writer.Add(s.arena[f.off:f.off+f.len], f.typ, f.ino)
	}
	return s.writer.End()
}

func (d *Directory) stampOf(st *localfs.Stat) listing.Stamp {
	return listing.Stamp{
		Mount: d.FS.Mount, Dev: st.Dev, Ino: st.Ino, Size: st.Size, Links: min(st.Links, math.MaxUint32), Modified: st.Mtime, Changed: st.Ctime,
	}
}
