package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// maxRead bounds one read. It is large enough that a disk or a share streams.
const maxRead = 4 << 20

// choose decides which packs are read.
func (c *checker) choose() {
	if c.opt.ReadData {
		c.opt.Subset.choose(c.packs)
	}
	for _, id := range c.found.Relied() {
		if f := c.packs.find(id); f != nil {
			f.chosen = true
		}
	}
}

// readData reads the chosen packs, several concurrently.
func (c *checker) readData(ctx context.Context) error {
	if c.opt.ReadData {
		c.loadProven()
	}
	defer c.saveProofs()
	c.choose()
	packs, bytes := uint64(0), uint64(0)
	for i := range c.packs {
		if c.packs[i].chosen {
			packs, bytes = packs+1, bytes+uint64(c.packs[i].size)
		}
	}
	c.found.Expect(packs, bytes)
	c.found.Count(func(r *Result) { r.PacksRead = packs })
	readers := make(chan *packReader, c.opt.Parallel)
	for range c.opt.Parallel {
		readers <- newPackReader(c)
	}
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(c.opt.Parallel)
	start := func(f *packFile, t *pack.Table) {
		f.chosen = false
		c.start(reading, g, func(ctx context.Context) error {
			r := <-readers
			defer func() { readers <- r }()
			return r.read(ctx, f, t)
		})
	}
	err := c.eachSegment(reading, func(info object.Info, seg *index.Segment, err error) error {
		if errors.Is(err, store.ErrNotExist) {
			return context.Cause(reading) // superseded by a concurrent prune
		}
		if err != nil { // checkIndex could read it; its packs are read by their own tables
			c.found.Add(Index, info.ID, "index segment "+info.ID.String(), err)
			return nil
		}
		for i := range seg.Packs {
			if f := c.packs.find(seg.Packs[i].ID); f != nil && f.chosen {
				start(f, &seg.Packs[i].Table)
			}
		}
		return context.Cause(reading)
	})
	for i := range c.packs {
		f := &c.packs[i]
		if err != nil || !f.chosen {
			continue
		}
		var t pack.Table
		if t, err = c.strayTable(reading, f); err == nil || !fatal(reading, err) {
			err = nil // recorded before
			start(f, &t)
		}
	}
	if waitErr := c.wait(g); waitErr != nil || err != nil {
		return cmp.Or(waitErr, err)
	}
	return c.judgeGone(ctx)
}

// packReader reads whole packs, one after the other, each byte once.
type packReader struct {
	c      *checker
	dec    *pack.Decompressor
	hasher *seal.Hasher
	buf    []byte // a part of the pack
	raw    []byte // buffer for one opened frame
}

func newPackReader(c *checker) *packReader {
	return &packReader{c: c, dec: pack.NewDecompressor(), hasher: c.keys.Hasher()}
}

// read compares each blob of the pack with its ID, and all bytes of the pack with its name. A pack that seems
// damaged is read again over another connection, and that counts.
func (r *packReader) read(ctx context.Context, f *packFile, t *pack.Table) error {
	p, err := r.look(ctx, f, t, 0)
	if p.damaged || err != nil && !fatal(ctx, err) {
		if p, err = r.look(store.SecondLook(ctx), f, t, p.intact); err == nil && !p.damaged {
			r.c.found.Note(altered, f.id)
		}
	}
	if err != nil && fatal(ctx, err) {
		return err
	}
	if errors.Is(err, store.ErrNotExist) {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		r.c.gone = append(r.c.gone, f)
		return nil
	}
	if err != nil {
		p.lose(func() { r.c.found.Add(Pack, f.id, "pack "+f.id.String(), err) })
	}
	r.c.noteProof(f, !p.damaged)
	for _, record := range p.losses {
		record()
	}
	if !p.damaged {
		r.c.found.Whole()
		r.c.found.Healed(f.id)
	}
	return nil
}

// look reads the pack once, and counts the intact bytes beyond those that were counted before. A pack whose name is not
// the hash of its bytes is damaged too.
func (r *packReader) look(ctx context.Context, f *packFile, t *pack.Table, counted uint64) (*packRead, error) {
	p := &packRead{r: r, file: f, sum: pack.NewSum(), name: object.Named(store.Pack, f.id), counted: counted,
		opener: pack.NewOpener(r.c.keys, t.Kind, t.Salt)}
	var err error
	frames := t.Frames
	for len(frames) > 0 && err == nil {
		n := p.run(frames)
		if n == 0 {
			break // the pack is too short for the rest; checkSegment recorded that
		}
		if err = p.skip(ctx, int64(frames[0].Offset)); err == nil {
			err = p.frames(ctx, frames[:n])
		}
		frames = frames[n:]
	}
	if err == nil {
		err = p.skip(ctx, f.size)
	}
	if err == nil && !p.damaged && p.sum.ID() != f.id {
		p.lose(func() { r.c.found.Add(Pack, f.id, "pack "+f.id.String(), errName) })
	}
	return p, err
}

// packRead is the state of reading one pack.
type packRead struct {
	r       *packReader
	file    *packFile
	name    store.Name
	opener  *pack.Opener
	sum     *pack.Sum
	at      int64 // everything before is read
	damaged bool
	losses  []func() // record the damage
	intact  uint64   // bytes of intact frames
	counted uint64   // bytes that an earlier look has counted
}

// lose notes damage, which record adds to the findings if it is confirmed.
func (p *packRead) lose(record func()) {
	p.damaged = true
	p.losses = append(p.losses, record)
}

// run returns how many of the first frames are read in one piece.
func (p *packRead) run(frames []pack.Frame) (n int) {
	start := int64(frames[0].Offset)
	for n < len(frames) {
		end := int64(frames[n].Offset) + int64(frames[n].Sealed)
		if end > p.file.size || n > 0 && end-start > maxRead {
			break
		}
		n++
	}
	return n
}

// skip reads up to offset to, for the sum alone.
func (p *packRead) skip(ctx context.Context, to int64) error {
	for p.at < to {
		n := min(to-p.at, maxRead)
		if err := p.fill(ctx, p.at, n); err != nil {
			return err
		}
		_, _ = p.sum.Write(p.r.buf) // never fails
		p.at += n
	}
	return nil
}

func (p *packRead) fill(ctx context.Context, off, n int64) error {
	p.r.buf = slices.Grow(p.r.buf[:0], int(n))[:n]
	return p.r.c.st.Get(ctx, p.name, off, p.r.buf)
}

// frames reads and opens adjacent frames. A failed read is retried once, because a share may be unreachable for a
// moment. A success of the retry is reported in a note. After a second failure each frame is read separately.
func (p *packRead) frames(ctx context.Context, frames []pack.Frame) error {
	start := int64(frames[0].Offset)
	end := int64(frames[len(frames)-1].Offset) + int64(frames[len(frames)-1].Sealed)
	p.at = end
	err := p.fill(ctx, start, end-start)
	if err != nil && !fatal(ctx, err) {
		first := err
		if err = p.fill(ctx, start, end-start); err == nil {
			p.r.c.found.Note("pack %s could be read at the second attempt only: %v", p.file.id, first)
		}
	}
	switch {
	case err != nil && (fatal(ctx, err) || errors.Is(err, store.ErrNotExist)):
		return err
	case err != nil:
		return p.oneByOne(ctx, frames, err)
	}
	_, _ = p.sum.Write(p.r.buf) // never fails
	whole := p.r.buf
	for i := range frames {
		f := &frames[i]
		p.frame(f, whole[int64(f.Offset)-start:][:f.Sealed])
	}
	return context.Cause(ctx)
}

// oneByOne reads the frames of a failed read separately, and records why.
func (p *packRead) oneByOne(ctx context.Context, frames []pack.Frame, why error) error {
	for i := range frames {
		f := &frames[i]
		if err := p.fill(ctx, int64(f.Offset), int64(f.Sealed)); err == nil {
			p.frame(f, p.r.buf)
		} else if fatal(ctx, err) {
			return err
		} else {
			p.lose(func() { p.r.c.found.LoseFrame(p.file.id, f.Offset, err) })
		}
	}
	p.lose(func() { p.r.c.found.Add(Pack, p.file.id, "pack "+p.file.id.String(), why) })
	return nil
}

// frame opens a frame in place and compares its blobs with their IDs.
func (p *packRead) frame(f *pack.Frame, sealed []byte) {
	raw, lens, err := p.r.dec.OpenFrameInPlace(p.opener, f.Offset, sealed, p.r.raw)
	if cap(raw) > cap(p.r.raw) { // raw is cut to the frame; its capacity serves larger frames
		p.r.raw = raw
	}
	if err == nil {
		if len(lens) != len(f.Blobs) {
			err = fmt.Errorf("frame at %d holds %d blobs, the index says %d: %w", f.Offset, len(lens), len(f.Blobs),
				format.ErrCorrupt)
		}
	}
	if err != nil {
		p.lose(func() { p.r.c.found.LoseFrame(p.file.id, f.Offset, err) })
		return
	}
	whole := true
	for i, n := range lens {
		if b := &f.Blobs[i]; n != b.Len || p.r.hasher.ID(raw[:n]) != b.ID {
			whole = false
			p.lose(func() {
				p.r.c.found.LoseBlobOf(p.file.id, b.ID, fmt.Errorf("frame at %d: blob %s has other bytes: %w", f.Offset,
					b.ID.Short(), format.ErrCorrupt))
			})
		}
		raw = raw[n:]
	}
	if !whole {
		return
	}
	if p.intact += uint64(f.Sealed); p.intact > p.counted {
		p.r.c.found.Read(min(uint64(f.Sealed), p.intact-p.counted))
	}
}
