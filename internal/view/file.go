package view

import (
	"context"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	// chunksAhead is how many chunks are loaded at once ahead of reads that go on in order, and bytesAhead how far, which
	// hides the latency of a remote store.
	chunksAhead = 4
	bytesAhead  = 8 << 20
	// near is how far from the end of the last read the next one may begin and still count as going on: the kernel
	// sends the parts of one read ahead in any order.
	near = 1 << 20
)

// File is the content of a file. It is safe for concurrent use.
type File struct {
	load    tree.Load
	size    uint64
	content tree.Content
	ahead   context.Context
	stop    context.CancelFunc
	loading sync.WaitGroup

	mu     sync.Mutex
	last   piece  // part of the list of chunks that was used last
	next   uint64 // end of the last read
	loaded uint64 // end of what was loaded ahead, or is being loaded
	coming int    // chunks that are being loaded ahead
}

// piece is a part of a list of chunks: chunks[i] begins at starts[i].
type piece struct {
	from, to uint64
	chunks   []tree.Chunk
	starts   []uint64
}

// at returns the chunk at an offset within the piece, and where it begins.
func (p *piece) at(at uint64) (tree.Chunk, uint64) {
	i := sort.Search(len(p.starts), func(i int) bool { return p.starts[i] > at }) - 1
	return p.chunks[i], p.starts[i]
}

// NewFile returns the content of a file, without reading anything. load is that of Recent, so that a chunk that is
// loaded ahead is not opened twice. The error is ErrNoContent if there is none.
func NewFile(load tree.Load, n *tree.Node) (*File, error) {
	if n.Outcome == tree.Skipped || n.Outcome == tree.Unreadable {
		return nil, ErrNoContent
	}
	f := &File{load: load, size: n.Size, content: n.Content}
	f.ahead, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// Close ends reading ahead, and waits for it. No read may begin afterwards.
func (f *File) Close() {
	f.stop()
	f.loading.Wait()
}

// ReadAt fills p with the content from that offset. It returns fewer bytes, with io.EOF, only at the end of the file.
// Errors are those of the load; bytes before the chunk that failed are returned.
func (f *File) ReadAt(ctx context.Context, p []byte, at uint64) (n int, err error) {
	if at >= f.size {
		return 0, io.EOF
	}
	end := min(f.size, at+uint64(len(p)))
	if len(f.content.Inline) > 0 {
		n = copy(p, f.content.Inline[min(at, uint64(len(f.content.Inline))):])
	} else {
		f.readAhead(at, end)
		for at+uint64(n) < end && err == nil {
			var m int
			m, err = f.readChunk(ctx, p[n:end-at], at+uint64(n))
			n += m
		}
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// readChunk fills p from the chunk or hole at that offset, up to its end.
func (f *File) readChunk(ctx context.Context, p []byte, at uint64) (int, error) {
	c, start, err := f.find(ctx, at)
	if err != nil {
		return 0, err
	}
	p = p[:min(uint64(len(p)), start+c.Len-at)]
	if c.IsHole() {
		clear(p)
		return len(p), nil
	}
	blob, err := tree.LoadChunk(ctx, f.load, c)
	if err != nil {
		return 0, err
	}
	return copy(p, blob[at-start:]), nil
}

// find returns the chunk at an offset below the size, and where it begins. What lies beyond all chunks is a hole.
func (f *File) find(ctx context.Context, at uint64) (tree.Chunk, uint64, error) {
	f.mu.Lock()
	in := f.last
	f.mu.Unlock()
	if at < in.from || at >= in.to {
		var err error
		if in, err = f.piece(ctx, at); err != nil {
			return tree.Chunk{}, 0, err
		}
		f.mu.Lock()
		f.last = in
		f.mu.Unlock()
	}
	c, start := in.at(at)
	return c, start, nil
}

// piece reads the part of the list of chunks with that offset.
func (f *File) piece(ctx context.Context, at uint64) (piece, error) {
	if f.content.List.IsZero() {
		return f.made(0, f.content.Chunks, at), nil
	}
	begin, end := uint64(0), uint64(0) // of the page; the root has no branch that says its end
	for id, level := f.content.List, -1; ; level-- {
		p, err := tree.LoadListPage(ctx, f.load, id, level)
		if err != nil {
			return piece{}, err
		}
		i, next := 0, begin
		if p.Level == 0 {
			for _, c := range p.Chunks {
				next += c.Len
			}
		} else {
			for ; i < len(p.Children) && at-next >= p.Children[i].Bytes; i++ {
				next += p.Children[i].Bytes
			}
		}
		switch {
		case level >= 0 && (p.Level == 0 && next != end || i == len(p.Children) && p.Level > 0):
			return piece{}, fmt.Errorf("list page %s has other bytes than its branch says: %w", id.Short(),
				format.ErrCorrupt)
		case p.Level == 0:
			return f.made(begin, p.Chunks, at), nil
		case i == len(p.Children):
			return f.made(next, nil, at), nil
		}
		begin, end = next, next+p.Children[i].Bytes
		id, level = p.Children[i].ID, p.Level
	}
}

// made makes a piece of chunks that begin at an offset. If they end at or before at, a hole up to the end of the file
// follows.
func (f *File) made(begin uint64, chunks []tree.Chunk, at uint64) piece {
	in := piece{from: begin, to: begin, chunks: chunks[:len(chunks):len(chunks)]}
	for _, c := range chunks {
		in.starts = append(in.starts, in.to)
		in.to += c.Len
	}
	if in.to <= at {
		in.chunks = append(in.chunks, tree.Chunk{Len: f.size - in.to})
		in.starts, in.to = append(in.starts, in.to), f.size
	}
	return in
}

// Seek returns the offset of the next hole at or after an offset, or of the next data. The end of the file is a hole.
// The error is io.EOF at and beyond the end, and where no data follows.
func (f *File) Seek(ctx context.Context, at uint64, hole bool) (uint64, error) {
	if at >= f.size {
		return 0, io.EOF
	}
	if len(f.content.Inline) > 0 {
		if hole {
			at = f.size
		}
		return at, nil
	}
	for at < f.size {
		c, start, err := f.find(ctx, at)
		if err != nil {
			return 0, err
		}
		if c.IsHole() == hole {
			return at, nil
		}
		at = start + c.Len
	}
	if hole {
		return f.size, nil
	}
	return 0, io.EOF
}

// Allocated returns how many bytes of a file are no holes, as far as its node says.
func Allocated(n *tree.Node) uint64 {
	if len(n.Content.Inline) > 0 || !n.Content.List.IsZero() {
		return n.Size
	}
	data := uint64(0)
	for _, c := range n.Content.Chunks {
		if !c.IsHole() {
			data += c.Len
		}
	}
	return data
}

// readAhead begins to load the chunks behind a read that begins near where the last one ended, as far as the part of
// the list says where they are. They stay in the memory of the repository.
func (f *File) readAhead(at, end uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	goesOn := at+near >= f.next && at <= f.next+near
	f.next = max(end, f.next)
	if !goesOn {
		f.next, f.loaded = end, end
		return
	}
	f.loaded = max(f.loaded, end)
	for f.loaded < min(end+bytesAhead, f.last.to) && f.loaded >= f.last.from && f.coming < chunksAhead {
		c, start := f.last.at(f.loaded)
		f.loaded = start + c.Len
		if c.IsHole() || start < end {
			continue // a hole, or the read itself loads it
		}
		f.coming++
		f.loading.Go(func() {
			_, _ = f.load(f.ahead, c.ID) // the read itself will say an error
			f.mu.Lock()
			f.coming--
			f.mu.Unlock()
		})
	}
}
