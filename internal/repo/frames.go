package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

const (
	// maxRun is the size of the largest single read from a pack: large enough for a disk or a share to stream, and
	// small enough for many concurrent reads.
	maxRun = 2 << 20
	// maxGap is the largest gap between two frames that is read and discarded to save a second read: about what a disk
	// reads in the time of a seek.
	maxGap = 256 << 10
)

// Span is the location of a frame in its pack.
type Span struct{ Offset, Sealed uint32 }

// VisitFrame receives each requested frame: raw is the concatenation of its blobs and lens the length of each, both
// valid until it returns. If the frame is damaged or missing, err is the reason and raw is nil. An error that it
// returns ends the reading. VisitFrame itself must verify the IDs of the blobs.
type VisitFrame func(i int, raw []byte, lens []uint32, err error) error

// FrameReader reads many frames of packs with few reads and opens each pack once. It keeps its buffers between packs
// and belongs to one goroutine.
type FrameReader struct {
	r     *Repository
	buf   []byte // sealed frames of one read
	tools chan *tools
}

// tools are the decompressor and the buffer of an opened frame: several MiB. A read takes less
// memory and may wait for long, so there may be more readers than tools.
type tools struct {
	dec *pack.Decompressor
	raw []byte // buffer for one opened frame
}

// NewFrameReader returns a FrameReader.
func (r *Repository) NewFrameReader() *FrameReader { return r.NewFrameReaders(1, 1)[0] }

// NewFrameReaders returns n readers. Up to open of them open and visit frames at the same time while the others read.
func (r *Repository) NewFrameReaders(n, open int) []*FrameReader {
	shared := make(chan *tools, open)
	for range open {
		shared <- &tools{dec: pack.NewDecompressor()}
	}
	readers := make([]*FrameReader, n)
	for i := range readers {
		readers[i] = &FrameReader{r: r, tools: shared}
	}
	return readers
}

// Read reads the frames at spans, which must ascend and not overlap, and passes each to visit in that order.
func (fr *FrameReader) Read(ctx context.Context, p index.PackInfo, spans []Span, visit VisitFrame) error {
	opener := pack.NewOpener(fr.r.keys, p.Kind(), p.Salt)
	for first := 0; first < len(spans); {
		end := first + runLength(spans[first:])
		if err := fr.readRun(ctx, opener, p, spans[:end], first, visit); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// runLength returns how many of the first spans one read covers.
func runLength(spans []Span) int {
	start := uint64(spans[0].Offset)
	end := start + uint64(spans[0].Sealed)
	n := 1
	for n < len(spans) {
		next := uint64(spans[n].Offset)
		stop := next + uint64(spans[n].Sealed)
		if next < end || next-end > maxGap || stop-start > maxRun {
			break
		}
		end = stop
		n++
	}
	return n
}

// readRun reads spans[first:] in one piece. If that fails (truncated pack, unreadable sector), it reads them one by
// one, which returns every readable frame.
func (fr *FrameReader) readRun(ctx context.Context, opener *pack.Opener, p index.PackInfo, spans []Span, first int,
	visit VisitFrame,
) error {
	start := spans[first].Offset
	last := spans[len(spans)-1]
	name := object.Named(store.Pack, p.ID)
	readErr := fr.fill(ctx, name, p.Size, Span{start, last.Offset + last.Sealed - start})
	single := readErr != nil && len(spans)-first > 1 && !errors.Is(readErr, store.ErrNotExist)
	var with *tools
	select {
	case with = <-fr.tools:
		defer func() { fr.tools <- with }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i := first; i < len(spans); i++ {
		s := spans[i]
		sealed, err := []byte(nil), readErr
		if single {
			err = fr.fill(ctx, name, p.Size, s)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case err == nil && single:
			sealed = fr.buf
		case err == nil:
			sealed = fr.buf[s.Offset-start:][:s.Sealed]
		}
		var raw []byte
		var lens []uint32
		if err == nil {
			// The result is cut to the frame, while the next frame may need the full capacity. A frame that was stored
			// uncompressed stays in the read buffer, into which the next frame must not be decompressed.
			raw, lens, err = with.dec.OpenFrameWithin(opener, s.Offset, sealed, with.raw)
			if with.dec.Codec() != pack.Stored && cap(raw) > cap(with.raw) {
				with.raw = raw
			}
		}
		if err != nil {
			raw, lens, err = nil, nil, fmt.Errorf("pack %s: %w", p.ID, err)
		}
		if err := visit(i, raw, lens, err); err != nil {
			return err
		}
	}
	return nil
}

// fill reads one range of a pack into the buffer.
func (fr *FrameReader) fill(ctx context.Context, name store.Name, size uint64, s Span) error {
	if uint64(s.Offset)+uint64(s.Sealed) > size {
		return fmt.Errorf("frame at %d of %d bytes lies beyond the end: %w", s.Offset, s.Sealed, format.ErrCorrupt)
	}
	fr.buf = slices.Grow(fr.buf[:0], int(s.Sealed))[:s.Sealed]
	return object.ReadAt(ctx, fr.r.st, name, int64(s.Offset), fr.buf)
}

// ReadFrame reads one frame of a pack. It always reads the target, so its result is proof of what the target holds. The
// result belongs to the caller.
func (r *Repository) ReadFrame(ctx context.Context, p index.PackInfo, offset, sealed uint32) (raw []byte,
	lens []uint32, err error,
) {
	at := Span{offset, sealed}
	buf, ok := r.sealed.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	defer r.sealed.Put(buf)
	if *buf, err = r.fetchFrame(ctx, p, at, *buf); err != nil {
		return nil, nil, err
	}
	return r.openFrame(p, at, *buf, (*pack.Decompressor).OpenFrameInPlace)
}

// fetchFrame reads a sealed frame from the target, into buf if it is large enough.
func (r *Repository) fetchFrame(ctx context.Context, p index.PackInfo, at Span, buf []byte) ([]byte, error) {
	if err := at.within(p); err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], int(at.Sealed))[:at.Sealed]
	if err := object.ReadAt(ctx, r.st, object.Named(store.Pack, p.ID), int64(at.Offset), buf); err != nil {
		return nil, fmt.Errorf("pack %s: %w", p.ID, err)
	}
	return buf, nil
}

// within rejects a frame beyond the end of the pack, before memory is allocated for it.
func (s Span) within(p index.PackInfo) error {
	if uint64(s.Offset)+uint64(s.Sealed) > p.Size {
		return fmt.Errorf("pack %s: frame at %d lies beyond the end: %w", p.ID, s.Offset, format.ErrCorrupt)
	}
	return nil
}

// openFrame opens a sealed frame with open, which determines whether the sealed bytes are overwritten.
func (r *Repository) openFrame(p index.PackInfo, at Span, sealed []byte,
	open func(d *pack.Decompressor, o *pack.Opener, offset uint32, sealed, dst []byte) ([]byte, []uint32, error),
) (raw []byte, lens []uint32, err error) {
	dec := r.decompressor()
	defer r.decompressors.Put(dec)
	raw, lens, err = open(dec, pack.NewOpener(r.keys, p.Kind(), p.Salt), at.Offset, sealed, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("pack %s: %w", p.ID, err)
	}
	return raw, slices.Clone(lens), nil
}
