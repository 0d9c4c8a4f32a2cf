package tree

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Page is a decoded page of a directory: a leaf has Nodes, a branch has Children. Both ascend by name. Nodes share
// storage of the page and keep it alive: copy what must outlive it.
type Page struct {
	Level    int // 0: leaf; the children of a branch are one level lower
	Nodes    []Node
	Children []Ref
}

// Ref is a reference to a page.
type Ref struct {
	Last  string // name of the last node beneath it
	ID    format.ID
	Nodes uint64 // how many nodes are beneath it
}

// DecodePage decodes a page of a directory. It does not keep p. The error wraps format.ErrCorrupt, or
// format.ErrUnsupported if a newer program wrote the page.
func DecodePage(p []byte) (*Page, error) {
	pg, err := decodePage(p)
	if err != nil {
		return nil, fmt.Errorf("decode tree page: %w", err)
	}
	return pg, nil
}

func decodePage(p []byte) (*Page, error) {
	d := pageDecoder{src: p}
	level, err := readHeader(&d.r, p, kindTree)
	if err != nil {
		return nil, err
	}
	row := uint64(minNodeRow)
	if level > 0 {
		row = minRefRow
	}
	count := readCount(&d.r, row)
	names := d.r.Uvarint()
	if names > count*maxShared+uint64(d.r.Len()) { // no row shares more with the previous one
		d.r.Fail("%d bytes of names in %d rows", names, count)
	}
	if d.r.Err() != nil {
		return nil, d.r.Err()
	}
	d.names.Grow(int(names))
	d.limit = int(names)
	pg := &Page{Level: level}
	if level > 0 {
		pg.Children = make([]Ref, count)
		for i := range pg.Children {
			c := &pg.Children[i]
			c.Last, c.ID, c.Nodes = d.name(), d.r.ID(), d.r.Uvarint()
		}
	} else {
		pg.Nodes = make([]Node, count)
		d.left = int(count)
		for i := range pg.Nodes {
			if d.node(&pg.Nodes[i]); d.r.Err() != nil || d.unsupported != nil {
				break
			}
			d.left--
		}
	}
	if d.unsupported != nil {
		return nil, d.unsupported
	}
	if d.r.Err() == nil && d.names.Len() != int(names) {
		d.r.Fail("names have %d bytes, %d are announced", d.names.Len(), names)
	}
	return pg, d.r.Done()
}

// readHeader checks the header of a page and points r behind it.
func readHeader(r *wire.Reader, p []byte, kind byte) (level int, err error) {
	r.Reset(p)
	if len(p) > MaxPage {
		r.Fail("%d bytes exceed the %d of a page", len(p), MaxPage)
	}
	head := r.Take(headerSize)
	switch {
	case head == nil:
	case head[0] != kind:
		r.Fail("kind %#02x, want %#02x", head[0], kind)
	case head[1] == 0:
		r.Fail("version 0 never existed")
	case head[1] > Version || head[3] != 0:
		return 0, fmt.Errorf("version %d, flags %#02x: %w", head[1], head[3], format.ErrUnsupported)
	case head[2] > maxLevel:
		r.Fail("level %d", head[2])
	default:
		level = int(head[2])
	}
	return level, r.Err()
}

// readCount reads a number of rows. A page above the size at which pages are cut has one row.
func readCount(r *wire.Reader, row uint64) uint64 {
	count := r.Count(row)
	if count > 1 && r.Len() > cutMax+headroom {
		r.Fail("%d rows in %d bytes", count, r.Len())
		return 0
	}
	return count
}

// pageDecoder decodes the rows of a page. Variable-length parts go to storage that the nodes of a page share, so that
// the garbage collector does not see their number.
type pageDecoder struct {
	r           wire.Reader
	src         []byte
	state       rowState
	names       strings.Builder // all names; grown once, so that what was cut from it stays
	limit       int             // its final length
	prev        string          // name of the previous row
	left        int             // remaining rows, including this one: sizes the allocations below
	times       []Time          // birth and access times
	chunks      []Chunk
	xattrs      []Xattr // that the page spelled out last
	text        string  // copy of src for targets and names of attributes, made when the first is met
	bytes       []byte  // copy of src for inline data and values, likewise
	unsupported error
}

// newer stops the decoding at a value that only a newer program can have written.
func (d *pageDecoder) newer(what string, value byte) {
	if d.unsupported == nil {
		d.unsupported = fmt.Errorf("%s %#02x: %w", what, value, format.ErrUnsupported)
	}
}

func (d *pageDecoder) node(n *Node) {
	r, st := &d.r, &d.state
	first, times, rare := r.Byte(), r.Byte(), byte(0)
	if first&rowRare != 0 {
		if rare = r.Byte(); rare&^rareKnown != 0 {
			d.newer("row flags", rare)
			return
		}
	}
	n.Type = Type(first & rowTypeMask)
	if n.Type == 0 {
		r.Fail("type 0")
		return
	}
	n.Name = d.name()
	o := &st.owners[n.Type]
	if first&rowSameOwner == 0 {
		readOwner(r, o)
	}
	n.Mode, n.UID, n.GID, n.Flags = o.mode, o.uid, o.gid, o.flags
	st.inode += uint64(r.Varint())
	n.Inode = st.inode
	n.Links = usualLinks(n.Type)
	if times&rowLinks != 0 {
		n.Links = r.Uvarint()
	}
	n.ModTime = readMod(r, times&timesModMask, st.mod)
	n.Changed = readChanged(r, times&timesChangedMask>>timesChangedShift, n.ModTime, st.changed)
	st.mod, st.changed = n.ModTime, n.Changed
	if form := times & timesBornMask >> timesBornShift; form > bornFull {
		d.newer("form of birth time", form)
	} else if form != bornNone {
		st.born = readBorn(r, form, n.Changed, n.ModTime, st.born)
		n.Born = d.time(st.born)
	}
	if rare != 0 {
		d.rare(n, rare)
	}
	d.kind(n, first&rowContentMask>>rowContentShift)
}

// name reads a name and checks that it follows the previous one.
func (d *pageDecoder) name() string {
	r := &d.r
	lens := r.Byte()
	shared, suffix := uint64(lens>>4), uint64(lens&lensEscape)
	if shared == lensEscape {
		shared += r.UvarintMax(maxShared - lensEscape)
	}
	if suffix == lensEscape {
		suffix += r.UvarintMax(MaxName - lensEscape)
	}
	tail := r.Take(int(suffix))
	start := d.names.Len()
	if r.Err() != nil {
		return ""
	}
	if shared > uint64(len(d.prev)) || start+int(shared+suffix) > d.limit {
		r.Fail("name shares %d bytes and has %d more", shared, suffix)
		return ""
	}
	d.names.WriteString(d.prev[:shared])
	d.names.Write(tail)
	name := d.names.String()[start:]
	if !follows(name, d.prev, int(shared)) {
		r.Fail("name %q after %q", name, d.prev)
		return ""
	}
	d.prev = name
	return name
}

// follows reports whether name is valid and comes after prev, which is valid and begins with the same shared bytes.
func follows(name, prev string, shared int) bool {
	tail, rest := name[shared:], prev[shared:]
	if tail == "" || strings.IndexByte(tail, '/') >= 0 || strings.IndexByte(tail, 0) >= 0 {
		return false
	}
	if name[0] == '.' && !validName(name) || len(name) > MaxName {
		return false
	}
	return rest == "" || tail[0] > rest[0] || tail > rest
}

func readOwner(r *wire.Reader, o *owner) {
	v := r.UvarintMax(modeMask<<ownerShift | (1<<ownerShift - 1))
	o.mode = uint32(v >> ownerShift)
	if v&ownerUID != 0 {
		o.uid = uint32(r.UvarintMax(1<<32 - 1))
	}
	if v&ownerGID != 0 {
		o.gid = uint32(r.UvarintMax(1<<32 - 1))
	}
	if v&ownerFlags != 0 {
		o.flags = r.Uvarint()
	}
}

// time returns t in the shared storage. Each piece of it has capacity for one time of each remaining row.
func (d *pageDecoder) time(t Time) *Time {
	if len(d.times) == cap(d.times) {
		d.times = make([]Time, 0, d.left)
	}
	d.times = append(d.times, t)
	return &d.times[len(d.times)-1]
}

func (d *pageDecoder) rare(n *Node, rare byte) {
	r := &d.r
	if rare&rareAccess != 0 {
		n.Access = d.time(readFull(r, n.Changed))
	}
	if rare&rareOutcome != 0 {
		if n.Outcome = Outcome(r.Byte()); n.Outcome > Unreadable {
			d.newer("outcome", byte(n.Outcome))
		}
	}
	if rare&rareFS != 0 {
		if n.FS = r.Uvarint(); n.FS == 0 || n.Links < 2 || n.Type == Dir {
			r.Fail("file system %d of an object of type %d with %d names", n.FS, n.Type, n.Links)
		}
	}
	if n.Mount = rare&rareMount != 0; n.Mount && n.Type != Dir {
		r.Fail("mount point of type %d", n.Type)
	}
	n.Recheck = rare&rareRecheck != 0
	if rare&rareXattrs != 0 {
		d.readXattrs()
	}
	if rare&(rareXattrs|rareSameXattrs) != 0 {
		n.Xattrs = d.xattrs
	}
}

func (d *pageDecoder) readXattrs() {
	r := &d.r
	count := r.Uvarint()
	if count == 0 || count > uint64(r.Len())/minXattr {
		r.Fail("%d extended attributes in %d bytes", count, r.Len())
		return
	}
	d.xattrs = make([]Xattr, count)
	for i := range d.xattrs {
		x := &d.xattrs[i]
		x.Name = d.string(r.Bytes())
		x.Value = d.keep(r.Bytes())
		if i > 0 && x.Name < d.xattrs[i-1].Name {
			r.Fail("extended attribute %q after %q", x.Name, d.xattrs[i-1].Name)
		}
	}
}

// string returns the bytes that r returned last as a string.
func (d *pageDecoder) string(p []byte) string {
	if len(p) == 0 {
		return ""
	}
	if d.text == "" {
		d.text = string(d.src)
	}
	end := len(d.src) - d.r.Len()
	return d.text[end-len(p) : end]
}

// keep returns a copy of the bytes that r returned last.
func (d *pageDecoder) keep(p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	if d.bytes == nil {
		d.bytes = append([]byte(nil), d.src...)
	}
	end := len(d.src) - d.r.Len()
	return d.bytes[end-len(p) : end : end]
}

// kind reads the fields that only nodes of this type have.
func (d *pageDecoder) kind(n *Node, form byte) {
	r := &d.r
	if n.Type != File && form != contentNone {
		d.newer("content of a node that is no file", form)
		return
	}
	switch n.Type {
	case File:
		n.Size = r.Uvarint()
		d.content(n, form)
	case Dir:
		copy(n.Subtree[:], r.Take(format.IDSize))
	case Symlink:
		n.Target = d.string(r.Bytes())
	case CharDevice, BlockDevice:
		n.Device = r.Uvarint()
	}
}

func (d *pageDecoder) content(n *Node, form byte) {
	r, c := &d.r, &n.Content
	switch form {
	case contentNone:
	case contentOne:
		c.Chunks = d.chunkSlice(1)
		one := &c.Chunks[0]
		one.Len = n.Size
		copy(one.ID[:], r.Take(format.IDSize))
		if r.Err() == nil && (one.ID.IsZero() || !validChunk(one)) {
			r.Fail("one chunk of %d bytes", n.Size)
		}
	case contentInline, contentShort:
		length := n.Size
		if form == contentShort {
			length = r.Uvarint()
		}
		if length == 0 || length > MaxInline {
			r.Fail("%d bytes inside a row", length)
			return
		}
		c.Inline = d.keep(r.Take(int(length)))
	case contentChunks:
		count := r.UvarintMax(MaxChunks)
		if count == 0 || count > uint64(r.Len())/minChunkRow {
			r.Fail("list of %d chunks", count)
			return
		}
		c.Chunks = d.chunkSlice(int(count))
		for i := range c.Chunks {
			readChunk(r, &c.Chunks[i])
		}
	case contentList:
		if c.List = r.ID(); c.List.IsZero() {
			r.Fail("list of chunks without id")
		}
	default:
		d.newer("form of content", form)
	}
}

// chunkSlice returns count chunks of the shared storage. Each piece of it has capacity for one chunk of each remaining
// row.
func (d *pageDecoder) chunkSlice(count int) []Chunk {
	if cap(d.chunks)-len(d.chunks) < count {
		d.chunks = make([]Chunk, 0, max(count, min(d.left, d.r.Len()/format.IDSize)))
	}
	start := len(d.chunks)
	d.chunks = d.chunks[:start+count]
	return d.chunks[start:len(d.chunks):len(d.chunks)]
}

// readChunk reads the encoding of appendChunk.
func readChunk(r *wire.Reader, c *Chunk) {
	v := r.Uvarint()
	c.Len = v >> 1
	if v&holeFlag == 0 {
		copy(c.ID[:], r.Take(format.IDSize))
	}
	if r.Err() == nil && (!validChunk(c) || v&holeFlag == 0 && c.ID.IsZero()) {
		r.Fail("chunk of %d bytes", c.Len)
	}
}
