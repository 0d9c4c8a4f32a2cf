package read

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Piece is what a reader hands on at once: the data of small files of one directory, or a part of a large file.
type Piece struct {
	Buf   []byte // from Memory.Buffers; the worker puts it back
	Len   int
	Items []Item   // small files
	Cuts  []uint32 // of a large file: its chunks end there

	dir   *Dir
	entry uint32 // of a large file
	file  Chunks // nil: small files
	seq   int
}

// Item is one small file inside a piece.
type Item struct {
	entry    uint32
	Off, Len uint32
}

// Directory returns the directory of the files.
func (p *Piece) Directory() *scan.Directory { return p.dir.Directory }

// content returns how many bytes of small files there are.
func (p *Piece) content() (n uint64) {
	for _, it := range p.Items {
		n += uint64(it.Len)
	}
	return n
}

// Chunked reports whether a small file is cut into chunks; a smaller one is kept in its node.
func (it Item) Chunked() bool { return it.Len > tree.MaxInline }

// Stored takes the chunks of p, in their order, and ends what they complete. It returns how many small files have
// chunks.
func (s *Stage) Stored(ctx context.Context, p *Piece, chunks []tree.Chunk) (chunked uint64, err error) {
	if p.file == nil {
		return s.storedSmall(ctx, p, chunks)
	}
	whole, err := p.file.Deliver(p.seq, chunks)
	if err != nil || !whole {
		return 0, err
	}
	return 0, s.assemble(ctx, p.dir, p.entry, p.file)
}

func (s *Stage) storedSmall(ctx context.Context, p *Piece, chunks []tree.Chunk) (chunked uint64, err error) {
	var inline []byte
	for _, it := range p.Items {
		r := &p.dir.Results[it.entry]
		switch {
		case it.Len == 0:
		case !it.Chunked():
			if inline == nil {
				inline = make([]byte, 0, p.inlineBytes())
			}
			from := len(inline)
			inline = append(inline, p.Buf[it.Off:it.Off+it.Len]...)
			r.Inline = inline[from:len(inline):len(inline)]
		default:
			n, left := 0, uint64(it.Len)
			for left > 0 {
				left -= chunks[n].Len
				n++
			}
			r.Chunks, chunks = chunks[:n:n], chunks[n:]
			chunked++
		}
		if err := s.publish(ctx, p.dir, it.entry); err != nil {
			return chunked, err
		}
	}
	return chunked, p.dir.Parts.End(ctx)
}

func (p *Piece) inlineBytes() (n int) {
	for _, it := range p.Items {
		if !it.Chunked() {
			n += int(it.Len)
		}
	}
	return n
}
