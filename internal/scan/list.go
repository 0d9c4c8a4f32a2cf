package scan

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// direntBuffer is the buffer of one getdents call. 64 KiB holds about 1500 names, so that most directories cost two
// calls (names, end).
const direntBuffer = 64 << 10

// scratch is what one worker reuses from directory to directory.
type scratch struct {
	dirents []byte
	arena   []byte
	found   []found
	order   []position
	stat    localfs.Stat
}

type found struct {
	off, len uint32
	typ      tree.Type
	ino      uint64
}

type position struct {
	ino   uint64
	index uint32
}

// list reads the names of d, drops what is excluded, and looks at the rest in the order of their inodes: neighbours in
// the inode table are read together on a cold cache.
func (w *walk) list(d *Directory, s *scratch) {
	if err := w.names(d, s); err != nil {
		d.Err = err
	}
	names := s.sortNames()
	if w.opt.Filter != nil {
		filter, enter, err := d.filter.Enter(d.dir, d.Name, func(name string) bool { return s.has(names, name) })
		if err != nil {
			w.visitor.Entry(d, "", err)
		}
		if !enter {
			d.Closed = true
			return
		}
		d.filter = filter
	}
	w.stat(d, names, s)
}

func (w *walk) names(d *Directory, s *scratch) error {
	if s.dirents == nil {
		s.dirents = make([]byte, direntBuffer)
	}
	s.arena, s.found = s.arena[:0], s.found[:0]
	return d.dir.Entries(s.dirents, func(name []byte, typ tree.Type, ino uint64) error {
		s.found = append(s.found, found{uint32(len(s.arena)), uint32(len(name)), typ, ino})
		s.arena = append(s.arena, name...)
		return nil
	})
}

// sortNames orders s.found by name and returns the text all names are cut from.
func (s *scratch) sortNames() string {
	text := string(s.arena)
	slices.SortFunc(s.found, func(a, b found) int {
		return strings.Compare(text[a.off:a.off+a.len], text[b.off:b.off+b.len])
	})
	return text
}

func (s *scratch) has(text, name string) bool {
	_, ok := slices.BinarySearchFunc(s.found, name, func(f found, name string) int {
		return strings.Compare(text[f.off:f.off+f.len], name)
	})
	return ok
}

// stat fills d.Entries from the names found.
func (w *walk) stat(d *Directory, text string, s *scratch) {
	entries := make([]Entry, 0, len(s.found))
	s.order = s.order[:0]
	for _, f := range s.found {
		name := text[f.off : f.off+f.len]
		if w.opt.Filter != nil && d.filter.Name([]byte(name), f.typ) == Drop {
			continue
		}
		s.order = append(s.order, position{f.ino, uint32(len(entries))})
		entries = append(entries, Entry{Name: name})
	}
	slices.SortFunc(s.order, func(a, b position) int { return cmp.Compare(a.ino, b.ino) })
	missing := 0
	for _, pos := range s.order {
		e := &entries[pos.index]
		if !w.look(d, e, s) {
			e.Type = 0
			missing++
		}
	}
	if missing > 0 {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Type == 0 })
	}
	d.Entries = entries
}

// look stats one entry; false leaves it out.
func (w *walk) look(d *Directory, e *Entry, s *scratch) bool {
	if err := d.dir.Lstat(e.Name, &s.stat); err != nil {
		if !errors.Is(err, localfs.ErrVanished) {
			w.visitor.Entry(d, e.Name, err)
		}
		return false
	}
	if w.opt.Filter != nil && d.filter.Stat(e.Name, &s.stat) == Drop {
		return false
	}
	e.Set(&s.stat)
	e.Mount = s.stat.Dev != d.Dev
	return true
}
