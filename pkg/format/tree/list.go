package tree

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// ContentBuilder writes the content of one file after the other, chunk by chunk, so that the list of a large file is
// never in memory as a whole. It is not safe for concurrent use.
type ContentBuilder struct {
	pages  pages   // their sums are those of the bytes and of the chunks; unused while the chunks are few
	few    []Chunk // the first MaxChunks
	lastID format.ID
}

// NewContentBuilder returns a builder that passes its pages to emit.
func NewContentBuilder(emit Emit) *ContentBuilder {
	b := &ContentBuilder{}
	b.pages = pages{emit: emit, kind: kindList, what: "list", refer: refer, cut: b.cut}
	return b
}

// Reset discards the added chunks and the error, and starts another file. The storage is kept.
func (b *ContentBuilder) Reset() {
	b.few = nil // Finish returned it
	b.pages.depth, b.pages.err = 0, nil
}

// Add adds the next chunk of the file.
func (b *ContentBuilder) Add(c Chunk) error {
	if b.pages.err != nil {
		return b.pages.err
	}
	if !validChunk(&c) {
		return fmt.Errorf("add chunk of %d bytes: %w", c.Len, ErrInvalid)
	}
	if b.pages.depth == 0 && len(b.few) < MaxChunks {
		b.few = append(b.few, c)
		return nil
	}
	for i := range b.few {
		if err := b.add(b.few[i]); err != nil {
			return err
		}
	}
	b.few = nil
	return b.add(c)
}

func (b *ContentBuilder) add(c Chunk) error {
	p := b.pages.at(0)
	start := len(p.buf)
	p.buf = appendChunk(p.buf, &c)
	p.count++
	p.sums[0] += c.Len
	p.sums[1]++
	b.lastID = c.ID
	return b.pages.added(0, start)
}

// cut is by the last chunk. Level n uses the n-th four bytes of its ID, which is a keyed hash. A hole is never a cut.
func (b *ContentBuilder) cut(level, size, row int) bool {
	hash := binary.LittleEndian.Uint32(b.lastID[level%8*4:])
	return !b.lastID.IsZero() && cuts(size, row, hash) || size > cutMax-maxListRow
}

// refer writes a reference to a page of a list.
func refer(up *page, id format.ID, sums [2]uint64) {
	up.buf = append(up.buf, id[:]...)
	up.buf = wire.AppendUvarint(up.buf, sums[0])
	up.buf = wire.AppendUvarint(up.buf, sums[1])
}

// Finish ends the file and returns its content. The builder must be Reset before it takes another file.
func (b *ContentBuilder) Finish() (Content, error) {
	if b.pages.err == nil && b.pages.depth == 0 {
		return Content{Chunks: b.few}, nil
	}
	root, err := b.pages.finish()
	return Content{List: root}, err
}

// ListPage is a decoded page of a list of chunks: a leaf has Chunks, a branch has Children.
type ListPage struct {
	Level    int // 0: leaf; the children of a branch are one level lower
	Chunks   []Chunk
	Children []ListRef
}

// ListRef is a reference to a page of a list of chunks.
type ListRef struct {
	ID     format.ID
	Bytes  uint64 // of the file, beneath this page: chunks and holes
	Chunks uint64 // how many chunks and holes
}

// DecodeListPage decodes a page of a list of chunks. It does not keep p. The error wraps format.ErrCorrupt, or
// format.ErrUnsupported if a newer program wrote the page.
func DecodeListPage(p []byte) (*ListPage, error) {
	pg, err := decodeListPage(p)
	if err != nil {
		return nil, fmt.Errorf("decode list page: %w", err)
	}
	return pg, nil
}

func decodeListPage(p []byte) (*ListPage, error) {
	var r wire.Reader
	level, err := readHeader(&r, p, kindList)
	if err != nil {
		return nil, err
	}
	pg := &ListPage{Level: level}
	if level > 0 {
		pg.Children = make([]ListRef, readCount(&r, minListRow))
		for i := range pg.Children {
			c := &pg.Children[i]
			c.ID, c.Bytes, c.Chunks = r.ID(), r.Uvarint(), r.Uvarint()
		}
	} else {
		pg.Chunks = make([]Chunk, readCount(&r, minChunkRow))
		for i := range pg.Chunks {
			readChunk(&r, &pg.Chunks[i])
		}
	}
	return pg, r.Done()
}
