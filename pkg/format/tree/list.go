package tree

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// PackContent returns the content of a file with these chunks. A list longer than MaxChunks is written in pages, which
// are passed to emit. A shorter one stays in the storage of chunks.
func PackContent(chunks []Chunk, emit Emit) (Content, error) {
	if len(chunks) <= MaxChunks {
		return Content{Chunks: chunks}, nil
	}
	b := NewContentBuilder(emit)
	for i := range chunks {
		if err := b.Add(chunks[i]); err != nil {
			return Content{}, err
		}
	}
	return b.Finish()
}

// ContentBuilder writes the content of one file after the other, chunk by chunk, so that the list of a large file is
// never in memory as a whole. It is not safe for concurrent use.
type ContentBuilder struct {
	emit   Emit
	few    []Chunk // the first MaxChunks
	levels []listPage
	depth  int // how many of them this file uses; 0 while the chunks are few
	lastID format.ID
	err    error // of emit
}

// listPage collects chunks (level 0) or references to pages of the level below.
type listPage struct {
	page
	first   format.ID // first page referred to
	bytes   uint64    // of the file, beneath the rows of the page
	chunks  uint64    // likewise
	flushed bool      // a page of this level was emitted
}

// NewContentBuilder returns a builder that passes its pages to emit.
func NewContentBuilder(emit Emit) *ContentBuilder { return &ContentBuilder{emit: emit} }

// Reset discards the added chunks and the error, and starts another file. The storage is kept.
func (b *ContentBuilder) Reset() {
	b.few = nil // Finish returned it
	b.depth = 0
	b.err = nil
}

// Add adds the next chunk of the file.
func (b *ContentBuilder) Add(c Chunk) error {
	if b.err != nil {
		return b.err
	}
	if !validChunk(&c) {
		return fmt.Errorf("add chunk of %d bytes: %w", c.Len, ErrInvalid)
	}
	if b.depth > 0 {
		return b.add(c)
	}
	if len(b.few) < MaxChunks {
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
	p := b.level(0)
	start := len(p.buf)
	p.buf = appendChunk(p.buf, &c)
	p.count++
	p.bytes += c.Len
	p.chunks++
	b.lastID = c.ID
	return b.cutAt(0, len(p.buf)-start)
}

// cutAt ends the page of that level if the last chunk beneath it is a cut. Level n uses the n-th four bytes of its ID,
// which is a keyed hash. A hole is never a cut.
func (b *ContentBuilder) cutAt(level, row int) error {
	p := b.level(level)
	size := p.rows()
	hash := binary.LittleEndian.Uint32(b.lastID[level%8*4:])
	if !b.lastID.IsZero() && cuts(size, row, hash) || size > cutMax-maxListRow {
		return b.flush(level)
	}
	return nil
}

func (b *ContentBuilder) level(n int) *listPage {
	if n >= len(b.levels) {
		b.levels = append(b.levels, listPage{})
	}
	p := &b.levels[n]
	if n >= b.depth {
		b.depth = n + 1
		p.start()
		p.flushed = false
	}
	return p
}

func (p *listPage) start() {
	p.page.reset()
	p.bytes, p.chunks = 0, 0
}

func (b *ContentBuilder) put(p *listPage, level int) (format.ID, error) {
	id, err := b.emit(p.finish(kindList, level))
	if err != nil {
		b.err = fmt.Errorf("emit list page: %w", err)
	}
	return id, b.err
}

// flush ends the page of that level and adds a reference to it to the level above.
func (b *ContentBuilder) flush(level int) error {
	p := b.level(level)
	id, err := b.put(p, level)
	if err != nil {
		return err
	}
	bytes, chunks := p.bytes, p.chunks
	p.flushed = true
	p.start()

	up := b.level(level + 1)
	start := len(up.buf)
	if up.count == 0 && !up.flushed {
		up.first = id
	}
	up.buf = append(up.buf, id[:]...)
	up.buf = wire.AppendUvarint(up.buf, bytes)
	up.buf = wire.AppendUvarint(up.buf, chunks)
	up.count++
	up.bytes += bytes
	up.chunks += chunks
	return b.cutAt(level+1, len(up.buf)-start)
}

// Finish ends the file and returns its content. The builder must be Reset before it takes another file.
func (b *ContentBuilder) Finish() (Content, error) {
	if b.err != nil {
		return Content{}, b.err
	}
	if b.depth == 0 {
		return Content{Chunks: b.few}, nil
	}
	for level := 0; ; level++ {
		switch p := b.level(level); {
		case !p.flushed && level > 0 && p.count == 1: // the only page of the level below is the root
			return Content{List: p.first}, nil
		case !p.flushed:
			id, err := b.put(p, level)
			return Content{List: id}, err
		case p.count > 0:
			if err := b.flush(level); err != nil {
				return Content{}, err
			}
		}
	}
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
