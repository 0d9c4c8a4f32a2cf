package tree

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// leaf writes the nodes of a page, each relative to the previous one.
type leaf struct {
	state     rowState
	xattrs    []byte // encoding of the extended attributes that were last written in full on the page
	newXattrs []byte // scratch: that of the node being added
}

// add appends the row of n, whose name follows prev, to p. An error leaves the page unchanged. The fields that a node
// of this type does not have are not written.
func (l *leaf) add(p *page, n *Node, prev []byte) error {
	if err := check(n); err != nil {
		return err
	}
	if p.count == 0 {
		prev, l.state, l.xattrs = nil, rowState{}, l.xattrs[:0]
	}
	st := &l.state
	start := len(p.buf)
	buf := append(p.buf, byte(n.Type), 0)
	first, times, rare := byte(n.Type), byte(0), byte(0)
	if rare = l.rare(n); rare != 0 {
		first |= rowRare
		buf = append(buf, rare)
	}
	buf = appendName(buf, n.Name, prev)
	if o := ownerOf(n); o == st.owners[n.Type] {
		first |= rowSameOwner
	} else {
		buf = appendOwner(buf, o, st.owners[n.Type])
	}
	buf = wire.AppendVarint(buf, int64(n.Inode-st.inode))
	if n.Links != usualLinks(n.Type) {
		times |= rowLinks
		buf = wire.AppendUvarint(buf, n.Links)
	}
	var form byte
	mod, changed, born := n.ModTime.normal(), n.Changed.normal(), st.born
	buf, form = appendMod(buf, mod, st.mod)
	times |= form
	buf, form = appendChanged(buf, changed, mod, st.changed)
	times |= form << timesChangedShift
	if n.Born != nil {
		born = n.Born.normal()
		buf, form = appendBorn(buf, born, changed, mod, st.born)
		times |= form << timesBornShift
	}
	if rare != 0 {
		buf = l.appendRare(buf, n, rare, changed)
	}
	buf, form = appendKind(buf, n)
	buf[start] = first | form<<rowContentShift
	buf[start+1] = times
	if len(buf)-start+headroom > MaxPage {
		p.buf = buf[:start]
		return fmt.Errorf("%d bytes, at most %d are possible: %w", len(buf)-start, MaxPage-headroom, ErrTooLarge)
	}
	p.buf = buf
	st.inode, st.mod, st.changed, st.born = n.Inode, mod, changed, born
	st.owners[n.Type] = ownerOf(n)
	if rare&rareXattrs != 0 {
		l.xattrs, l.newXattrs = l.newXattrs, l.xattrs
	}
	p.count++
	p.sums[0]++
	p.names += uint64(len(n.Name))
	return nil
}

// check rejects what a decoder would reject.
func check(n *Node) error {
	c := &n.Content
	switch {
	case !validName(n.Name):
		return fmt.Errorf("name %q: %w", n.Name, ErrInvalid)
	case n.Type < File || n.Type > BlockDevice:
		return fmt.Errorf("type %d: %w", n.Type, ErrInvalid)
	case n.Mode > modeMask:
		return fmt.Errorf("mode %o: %w", n.Mode, ErrInvalid)
	case n.Outcome > Unreadable:
		return fmt.Errorf("outcome %d: %w", n.Outcome, ErrInvalid)
	case n.Type != File:
		return nil
	case len(c.Inline) > MaxInline || len(c.Chunks) > MaxChunks:
		return fmt.Errorf("content of %d bytes or %d chunks in a node: %w", len(c.Inline), len(c.Chunks), ErrInvalid)
	}
	if len(c.Inline) > 0 && len(c.Chunks) > 0 || len(c.Inline)+len(c.Chunks) > 0 && !c.List.IsZero() {
		return fmt.Errorf("content of more than one form: %w", ErrInvalid)
	}
	for i := range c.Chunks {
		if !validChunk(&c.Chunks[i]) {
			return fmt.Errorf("chunk of %d bytes: %w", c.Chunks[i].Len, ErrInvalid)
		}
	}
	return nil
}

// validChunk reports whether c can be written: a blob has up to 32 bits' worth of bytes, a hole as many as a file.
func validChunk(c *Chunk) bool {
	return c.Len != 0 && (c.Len <= math.MaxUint32 || c.Len <= math.MaxInt64 && c.IsHole())
}

func validName(name string) bool {
	return len(name) > 0 && len(name) <= MaxName && name != "." && name != ".." &&
		strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}

// appendName appends how many bytes the name shares with prev, how many follow, and those.
func appendName(dst []byte, name string, prev []byte) []byte {
	limit := min(len(name), len(prev), maxShared)
	shared := 0
	for shared < limit && name[shared] == prev[shared] {
		shared++
	}
	suffix := len(name) - shared
	dst = append(dst, byte(min(shared, lensEscape)<<4|min(suffix, lensEscape)))
	if shared >= lensEscape {
		dst = wire.AppendUvarint(dst, uint64(shared-lensEscape))
	}
	if suffix >= lensEscape {
		dst = wire.AppendUvarint(dst, uint64(suffix-lensEscape))
	}
	return append(dst, name[shared:]...)
}

func ownerOf(n *Node) owner { return owner{mode: n.Mode, uid: n.UID, gid: n.GID, flags: n.Flags} }

// appendOwner appends the mode, and the other fields that differ from prev.
func appendOwner(dst []byte, o, prev owner) []byte {
	which := uint64(0)
	if o.uid != prev.uid {
		which |= ownerUID
	}
	if o.gid != prev.gid {
		which |= ownerGID
	}
	if o.flags != prev.flags {
		which |= ownerFlags
	}
	dst = wire.AppendUvarint(dst, uint64(o.mode)<<ownerShift|which)
	if which&ownerUID != 0 {
		dst = wire.AppendUvarint(dst, uint64(o.uid))
	}
	if which&ownerGID != 0 {
		dst = wire.AppendUvarint(dst, uint64(o.gid))
	}
	if which&ownerFlags != 0 {
		dst = wire.AppendUvarint(dst, o.flags)
	}
	return dst
}

// rare returns the rare flags of n and encodes its extended attributes into l.newXattrs.
func (l *leaf) rare(n *Node) (flags byte) {
	if n.Access != nil {
		flags |= rareAccess
	}
	if n.Outcome != Static {
		flags |= rareOutcome
	}
	if n.Mount && n.Type == Dir {
		flags |= rareMount
	}
	if n.Recheck {
		flags |= rareRecheck
	}
	if n.FS != 0 && n.Links > 1 && n.Type != Dir {
		flags |= rareFS
	}
	if len(n.Xattrs) > 0 {
		l.newXattrs = appendXattrs(l.newXattrs[:0], n.Xattrs)
		if bytes.Equal(l.newXattrs, l.xattrs) {
			flags |= rareSameXattrs
		} else {
			flags |= rareXattrs
		}
	}
	return flags
}

// appendRare appends the fields that the rare flags announce.
func (l *leaf) appendRare(dst []byte, n *Node, rare byte, changed Time) []byte {
	if rare&rareAccess != 0 {
		dst = appendFull(dst, n.Access.normal(), changed)
	}
	if rare&rareOutcome != 0 {
		dst = append(dst, byte(n.Outcome))
	}
	if rare&rareFS != 0 {
		dst = wire.AppendUvarint(dst, n.FS)
	}
	if rare&rareXattrs != 0 {
		dst = append(dst, l.newXattrs...)
	}
	return dst
}

// appendXattrs appends the extended attributes by ascending name, in whatever order they are given.
func appendXattrs(dst []byte, xattrs []Xattr) []byte {
	byName := func(a, b Xattr) int { return cmp.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(xattrs, byName) {
		xattrs = slices.Clone(xattrs)
		slices.SortStableFunc(xattrs, byName)
	}
	dst = wire.AppendUvarint(dst, uint64(len(xattrs)))
	for i := range xattrs {
		dst = wire.AppendString(dst, xattrs[i].Name)
		dst = wire.AppendBytes(dst, xattrs[i].Value)
	}
	return dst
}

// appendKind appends the fields that only nodes of this type have, and returns the form of the content.
func appendKind(dst []byte, n *Node) ([]byte, byte) {
	switch n.Type {
	case File:
		return appendContent(wire.AppendUvarint(dst, n.Size), n)
	case Dir:
		return append(dst, n.Subtree[:]...), contentNone
	case Symlink:
		return wire.AppendString(dst, n.Target), contentNone
	case CharDevice, BlockDevice:
		return wire.AppendUvarint(dst, n.Device), contentNone
	default: // a FIFO and a socket have no fields of their own
		return dst, contentNone
	}
}

func appendContent(dst []byte, n *Node) ([]byte, byte) {
	c := &n.Content
	switch {
	case len(c.Chunks) == 1 && c.Chunks[0].Len == n.Size && !c.Chunks[0].ID.IsZero():
		return append(dst, c.Chunks[0].ID[:]...), contentOne
	case len(c.Chunks) > 0:
		dst = wire.AppendUvarint(dst, uint64(len(c.Chunks)))
		for i := range c.Chunks {
			dst = appendChunk(dst, &c.Chunks[i])
		}
		return dst, contentChunks
	case len(c.Inline) > 0 && uint64(len(c.Inline)) == n.Size:
		return append(dst, c.Inline...), contentInline
	case len(c.Inline) > 0:
		return wire.AppendBytes(dst, c.Inline), contentShort
	case !c.List.IsZero():
		return append(dst, c.List[:]...), contentList
	}
	return dst, contentNone
}

// appendChunk appends the length, doubled; a hole adds one and has no ID.
func appendChunk(dst []byte, c *Chunk) []byte {
	if c.IsHole() {
		return wire.AppendUvarint(dst, c.Len<<1|holeFlag)
	}
	return append(wire.AppendUvarint(dst, c.Len<<1), c.ID[:]...)
}
