package tree

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Emit stores a page as a blob and returns its ID. The page is valid only during the call.
type Emit func(page []byte) (format.ID, error)

// Builder writes one directory after the other. It is not safe for concurrent use.
type Builder struct {
	emit     Emit
	leaf     leaf
	branches []branch // of ascending level, from 1 on
	depth    int      // how many of them this directory uses
	last     []byte   // name added last
	started  bool     // last is set
	err      error    // of emit: this directory cannot be continued
}

// branch collects references to the pages of the level below.
type branch struct {
	page
	first   format.ID // first page referred to since the start of the directory
	nodes   uint64    // beneath the references of the page
	last    []byte    // name in the last of them
	flushed bool      // a page of this level was emitted
}

// NewBuilder returns a builder that passes its pages to emit.
func NewBuilder(emit Emit) *Builder {
	b := &Builder{emit: emit}
	b.Reset()
	return b
}

// Reset discards the added nodes and the error, and starts another directory. The storage is kept.
func (b *Builder) Reset() {
	b.leaf.reset()
	b.depth = 0
	b.last = b.last[:0]
	b.started = false
	b.err = nil
}

// Add adds a node, which must follow the previous one by the bytes of its name (ErrOrder otherwise). A node that cannot
// be stored (ErrInvalid, ErrTooLarge) is not added, and the builder continues without it. An error of emit ends the
// directory. The node is not kept. Fields that a node of its type does not have are not stored.
func (b *Builder) Add(n *Node) error {
	if b.err != nil {
		return b.err
	}
	if b.started && string(b.last) >= n.Name {
		return fmt.Errorf("add node %q after %q: %w", n.Name, b.last, ErrOrder)
	}
	start := len(b.leaf.buf)
	if err := b.leaf.add(n, b.last); err != nil {
		return fmt.Errorf("add node %q: %w", n.Name, err)
	}
	if b.leaf.rows() > cutMax && b.leaf.count > 1 {
		if err := b.moveToNewPage(n, start); err != nil {
			return err
		}
		start = headroom
	}
	b.last = append(b.last[:0], n.Name...)
	b.started = true
	if size := b.leaf.rows(); size >= cutMin && cuts(size, len(b.leaf.buf)-start, nameHash(b.last, 0)) {
		return b.flushLeaf()
	}
	return nil
}

// moveToNewPage ends the page before the row at start, which is that of n, and begins another with n.
func (b *Builder) moveToNewPage(n *Node, start int) error {
	b.leaf.buf = b.leaf.buf[:start]
	b.leaf.count--
	b.leaf.names -= uint64(len(n.Name))
	if err := b.flushLeaf(); err != nil {
		return err
	}
	if err := b.leaf.add(n, nil); err != nil {
		return fmt.Errorf("add node %q: %w", n.Name, err)
	}
	return nil
}

// flushLeaf ends a page whose last name is b.last.
func (b *Builder) flushLeaf() error {
	id, err := b.put(b.leaf.finish(kindTree, 0))
	if err != nil {
		return err
	}
	nodes := b.leaf.count
	b.leaf.reset()
	return b.addRef(1, id, nodes)
}

func (b *Builder) put(page []byte) (format.ID, error) {
	id, err := b.emit(page)
	if err != nil {
		b.err = fmt.Errorf("emit tree page: %w", err)
	}
	return id, b.err
}

// addRef adds a reference to a page of the level below, whose last name is b.last.
func (b *Builder) addRef(level int, id format.ID, nodes uint64) error {
	br := b.branch(level)
	start := len(br.buf)
	if br.count == 0 {
		br.last = br.last[:0]
		if !br.flushed {
			br.first = id
		}
	}
	br.buf = appendName(br.buf, string(b.last), br.last)
	br.buf = append(br.buf, id[:]...)
	br.buf = wire.AppendUvarint(br.buf, nodes)
	br.last = append(br.last[:0], b.last...)
	br.count++
	br.nodes += nodes
	br.names += uint64(len(b.last))
	if size := br.rows(); cuts(size, len(br.buf)-start, nameHash(b.last, level)) || size > cutMax-maxRefRow {
		return b.flushBranch(level)
	}
	return nil
}

func (b *Builder) branch(level int) *branch {
	if level > len(b.branches) {
		b.branches = append(b.branches, branch{})
	}
	br := &b.branches[level-1]
	if level > b.depth {
		b.depth = level
		br.flushed = false
		br.nodes = 0
		br.reset()
	}
	return br
}

func (b *Builder) flushBranch(level int) error {
	br := b.branch(level)
	id, err := b.put(br.finish(kindTree, level))
	if err != nil {
		return err
	}
	nodes := br.nodes
	br.flushed = true
	br.nodes = 0
	br.reset()
	return b.addRef(level+1, id, nodes)
}

// Finish ends the directory and returns the ID of its root page. The ID depends only on the nodes. An empty directory
// also has a page. The builder must be Reset before it takes another directory.
func (b *Builder) Finish() (format.ID, error) {
	if b.err != nil {
		return format.ID{}, b.err
	}
	if b.depth == 0 {
		return b.put(b.leaf.finish(kindTree, 0))
	}
	if b.leaf.count > 0 {
		if err := b.flushLeaf(); err != nil {
			return format.ID{}, err
		}
	}
	for level := 1; ; level++ {
		switch br := b.branch(level); {
		case !br.flushed && br.count == 1: // the only page of the level below is the root
			return br.first, nil
		case !br.flushed:
			return b.put(br.finish(kindTree, level))
		case br.count > 0:
			if err := b.flushBranch(level); err != nil {
				return format.ID{}, err
			}
		}
	}
}
