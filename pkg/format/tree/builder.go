package tree

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Emit stores a page as a blob and returns its ID. The page is valid only during the call.
type Emit func(page []byte) (format.ID, error)

// pages writes the pages of one directory, or of one list of chunks, after the other: rows at level 0, and at each
// level above references to the pages below. The storage is kept.
type pages struct {
	emit Emit
	kind byte
	what string // for errors
	// refer appends the row of a reference to a page to one of the level above. sums are those beneath the page.
	refer func(up *page, id format.ID, sums [2]uint64)
	// cut reports whether the page of a level ends after its last row, which has row bytes.
	cut func(level, size, row int) bool

	levels []page
	depth  int   // how many of them are in use
	err    error // of emit: what was begun cannot be continued
}

// at returns the page of a level.
func (s *pages) at(level int) *page {
	for level >= len(s.levels) {
		s.levels = append(s.levels, page{})
	}
	p := &s.levels[level]
	if level >= s.depth {
		s.depth = level + 1
		p.reset()
		p.flushed = false
	}
	return p
}

// added ends the page of a level if the row that begins at start, its last one, is a cut.
func (s *pages) added(level, start int) error {
	if p := s.at(level); s.cut(level, p.rows(), len(p.buf)-start) {
		return s.flush(level)
	}
	return nil
}

func (s *pages) put(level int) (format.ID, error) {
	id, err := s.emit(s.at(level).finish(s.kind, level))
	if err != nil {
		s.err = fmt.Errorf("emit %s page: %w", s.what, err)
	}
	return id, s.err
}

// flush ends the page of a level and adds a reference to it to the level above.
func (s *pages) flush(level int) error {
	id, err := s.put(level)
	if err != nil {
		return err
	}
	p := s.at(level)
	sums := p.sums
	p.reset()
	p.flushed = true
	return s.add(level+1, id, sums)
}

// add adds a reference to a page of the level below.
func (s *pages) add(level int, id format.ID, sums [2]uint64) error {
	p := s.at(level)
	start := len(p.buf)
	if p.count == 0 && !p.flushed {
		p.first = id
	}
	s.refer(p, id, sums)
	p.count++
	p.sums[0] += sums[0]
	p.sums[1] += sums[1]
	return s.added(level, start)
}

// finish ends the last pages and returns the ID of the root. There is a page even without rows.
func (s *pages) finish() (format.ID, error) {
	if s.err != nil {
		return format.ID{}, s.err
	}
	for level := 0; ; level++ {
		switch p := s.at(level); {
		case !p.flushed && level > 0 && p.count == 1: // the only page of the level below is the root
			return p.first, nil
		case !p.flushed:
			return s.put(level)
		case p.count > 0:
			if err := s.flush(level); err != nil {
				return format.ID{}, err
			}
		}
	}
}

// Builder writes one directory after the other. It is not safe for concurrent use.
type Builder struct {
	pages   pages // their first sum is that of the nodes
	leaf    leaf
	last    []byte // name added last
	started bool   // last is set
}

// NewBuilder returns a builder that passes its pages to emit.
func NewBuilder(emit Emit) *Builder {
	b := &Builder{}
	b.pages = pages{emit: emit, kind: kindTree, what: "tree", refer: b.refer, cut: b.cut}
	return b
}

// Reset discards the added nodes and the error, and starts another directory. The storage is kept.
func (b *Builder) Reset() {
	b.pages.depth, b.pages.err = 0, nil
	b.last = b.last[:0]
	b.started = false
}

// Add adds a node, which must follow the previous one by the bytes of its name (ErrOrder otherwise). A node that cannot
// be stored (ErrInvalid, ErrTooLarge) is not added, and the builder continues without it. An error of emit ends the
// directory. The node is not kept. Fields that a node of its type does not have are not stored.
func (b *Builder) Add(n *Node) error {
	if b.pages.err != nil {
		return b.pages.err
	}
	if b.started && string(b.last) >= n.Name {
		return fmt.Errorf("add node %q after %q: %w", n.Name, b.last, ErrOrder)
	}
	p := b.pages.at(0)
	start := len(p.buf)
	if err := b.leaf.add(p, n, b.last); err != nil {
		return fmt.Errorf("add node %q: %w", n.Name, err)
	}
	if p.rows() > cutMax && p.count > 1 {
		if err := b.moveToNewPage(n, start); err != nil {
			return err
		}
		start = headroom
	}
	b.last = append(b.last[:0], n.Name...)
	b.started = true
	return b.pages.added(0, start)
}

// moveToNewPage ends the page before the row at start, which is that of n, and begins another with n.
func (b *Builder) moveToNewPage(n *Node, start int) error {
	p := b.pages.at(0)
	p.buf = p.buf[:start]
	p.count--
	p.sums[0]--
	p.names -= uint64(len(n.Name))
	if err := b.pages.flush(0); err != nil {
		return err
	}
	if err := b.leaf.add(b.pages.at(0), n, nil); err != nil {
		return fmt.Errorf("add node %q: %w", n.Name, err)
	}
	return nil
}

// refer writes a reference to a page whose last name is b.last.
func (b *Builder) refer(up *page, id format.ID, sums [2]uint64) {
	if up.count == 0 {
		up.last = up.last[:0]
	}
	up.buf = appendName(up.buf, string(b.last), up.last)
	up.buf = append(up.buf, id[:]...)
	up.buf = wire.AppendUvarint(up.buf, sums[0])
	up.last = append(up.last[:0], b.last...)
	up.names += uint64(len(b.last))
}

// cut is by the last name. A page of nodes also ends before it is too long.
func (b *Builder) cut(level, size, row int) bool {
	return size >= cutMin && cuts(size, row, nameHash(b.last, level)) || level > 0 && size > cutMax-maxRefRow
}

// Finish ends the directory and returns the ID of its root page. The ID depends only on the nodes. An empty directory
// also has a page. The builder must be Reset before it takes another directory.
func (b *Builder) Finish() (format.ID, error) { return b.pages.finish() }
