package session

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// packer holds the open pack of one kind.
type packer struct {
	s      *Session
	kind   pack.Kind
	target int // bytes at which the pack is complete
	frame  int // bytes at which a frame is

	mu   sync.Mutex // also held while waiting for a buffer: then nobody could append anyway
	open *pack.Builder

	buffers chan []byte // free buffers, which take no memory; its capacity is how many there may be
	made    int         // buffers that exist
}

// trailerRoom is what a pack may exceed its target by: the trailer, at 36 bytes a blob. A pack of more and smaller blobs
// is complete before it reaches the target.
const trailerRoom = 256 << 10

// bufferCounts divides the memory of a session: one pack of each kind is always open, the others are on their way.
func bufferCounts(opt Options) (data, trees int) {
	data, trees = opt.Uploads+1, 2
	if opt.Memory <= 0 {
		return data, trees
	}
	t := opt.Tuning
	perData, perTree := int64(t.DataPack+trailerRoom), int64(t.TreePack+trailerRoom)
	for trees > 1 && int64(trees)*perTree+perData > opt.Memory {
		trees--
	}
	for data > 1 && int64(trees)*perTree+int64(data)*perData > opt.Memory {
		data--
	}
	return data, trees
}

func newPacker(s *Session, kind pack.Kind, target, buffers int) *packer {
	return &packer{
		s: s, kind: kind, target: target, frame: s.opt.Tuning.frame(kind), buffers: make(chan []byte, buffers),
	}
}

// append seals one frame into the open pack, and sends the pack on its way when it is complete. That is before a frame
// that its buffer has no room for: only a frame that is as long as a whole pack makes a buffer grow.
func (p *packer) append(payload *pack.Payload) error {
	if !p.mu.TryLock() { // another seals, or waits for a buffer
		p.s.blocked.Begin()
		p.mu.Lock()
		p.s.blocked.End()
	}
	defer p.mu.Unlock()
	if p.open != nil && p.open.Frames() > 0 && p.open.SizeWith(payload) > p.target+trailerRoom {
		if err := p.dispatch(); err != nil {
			return err
		}
	}
	if p.open == nil {
		buf, err := p.buffer()
		if err != nil {
			return err
		}
		if p.open, err = pack.NewBuilder(p.s.to.Keys, p.kind, buf); err != nil {
			return fmt.Errorf("begin pack: %w", err)
		}
	}
	before := p.open.Size()
	if err := p.open.Append(payload); err != nil {
		return err
	}
	p.s.totals.frame(p.kind, len(payload.Blobs), int(payload.Raw))
	p.s.opt.Observer.Sealed(p.kind, len(payload.Blobs), int(payload.Raw), p.open.Size()-before)
	if p.open.Size() >= p.target {
		return p.dispatch()
	}
	return nil
}

// flush completes the open pack, however small it is.
func (p *packer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil || p.open.Frames() == 0 {
		return nil
	}
	return p.dispatch()
}

// buffer returns memory for a pack: a free buffer, a new one while the budget lasts, or the next to become free.
func (p *packer) buffer() ([]byte, error) {
	select {
	case buf := <-p.buffers:
		return buf, nil
	default:
	}
	if p.made < cap(p.buffers) {
		p.made++
		return newBuffer(p.target + trailerRoom), nil
	}
	defer p.s.waiting()()
	select {
	case buf := <-p.buffers:
		return buf, nil
	case <-p.s.ctx.Done():
		return nil, context.Cause(p.s.ctx)
	}
}

// waiting measures how long a caller stands still; call what it returns when that is over.
func (s *Session) waiting() func() {
	start := s.opt.Tuning.Now()
	s.blocked.Begin()
	return func() {
		s.blocked.End()
		s.opt.Observer.Waited(s.opt.Tuning.Now().Sub(start))
	}
}

// dispatch hands the open pack to an upload of its own, once one of the lanes is free. Uploads never wait for a packer,
// so waiting for them here cannot deadlock.
func (p *packer) dispatch() error {
	if !p.s.lanes.tryEnter() {
		done := p.s.waiting()
		err := p.s.lanes.enter(p.s.ctx)
		done()
		if err != nil {
			return err
		}
	}
	builder := p.open
	p.open = nil
	go func() {
		defer p.s.lanes.leave()
		buf, err := p.s.upload(builder)
		if err != nil {
			_ = p.s.fail(err)
		}
		letGo(buf[:cap(buf)])
		p.buffers <- buf[:0] // has room for every buffer there is
	}()
	return nil
}

// upload completes a pack, puts it, proves it and queues it for the index. It returns the buffer of the pack.
func (s *Session) upload(b *pack.Builder) (buf []byte, err error) {
	data, table, err := b.Finish()
	if err != nil {
		return data, fmt.Errorf("complete pack: %w", err)
	}
	if err := s.err(); err != nil {
		return data, err
	}
	start := s.opt.Tuning.Now()
	id := seal.FileID(data)
	name := object.Named(store.Pack, id)
	if err := s.st.Put(s.ctx, name, data); err != nil {
		return data, fmt.Errorf("store pack %s: %w", id.Short(), err)
	}
	if err := s.prove(name, data, &table); err != nil {
		return data, fmt.Errorf("verify pack %s: %w", id.Short(), err)
	}
	s.stored(store.Pack, len(data), start)
	s.placed.add(store.Pack, id, len(data))
	if table.Kind == pack.Trees && s.to.Trees != nil && !s.opt.DryRun {
		s.to.Trees(id, data, table.Frames)
	}
	batch := s.seg.add(index.Pack{ID: id, Size: uint64(len(data)), Table: table}, s.opt.Tuning)
	if len(batch) == 0 {
		return data, nil
	}
	return data, s.writeSegment(s.ctx, batch)
}

// prove reads back from the target what the policy asks for, unless the store has done so.
func (s *Session) prove(name store.Name, data []byte, want *pack.Table) error {
	if s.opt.Verify == VerifyOff || s.opt.Verify == VerifyTrailer && store.Proves(s.st) && trailer(data, want) <= store.ProvenEnd {
		return nil
	}
	info, err := s.st.Stat(s.ctx, name)
	if err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	if info.Size != int64(len(data)) {
		return fmt.Errorf("%d bytes were sent, %d are there: %w", len(data), info.Size, ErrMismatch)
	}
	if s.opt.Verify == VerifyFull {
		return s.compare(name, data)
	}
	got, err := pack.OpenTable(s.to.Keys, info.Size, func(off int64, p []byte) error {
		return s.st.Get(s.ctx, name, off, p)
	})
	if err != nil {
		return fmt.Errorf("read back its trailer: %w", err)
	}
	if !equalTables(&got, want) {
		return fmt.Errorf("its trailer lists other frames: %w", ErrMismatch)
	}
	return nil
}

// trailer is how many bytes of a pack come after its frames.
func trailer(data []byte, t *pack.Table) int {
	if len(t.Frames) == 0 {
		return len(data)
	}
	last := t.Frames[len(t.Frames)-1]
	return len(data) - int(last.Offset) - int(last.Sealed)
}

// compare reads the file back piece by piece; another buffer of its size is not in the budget.
func (s *Session) compare(name store.Name, data []byte) error {
	piece := make([]byte, 1<<20)
	for off := 0; off < len(data); off += len(piece) {
		p := piece[:min(len(piece), len(data)-off)]
		if err := s.st.Get(s.ctx, name, int64(off), p); err != nil {
			return fmt.Errorf("read it back: %w", err)
		}
		if !slices.Equal(p, data[off:off+len(p)]) {
			return fmt.Errorf("other bytes from %d on: %w", off, ErrMismatch)
		}
	}
	return nil
}

func equalTables(a, b *pack.Table) bool {
	return a.Kind == b.Kind && a.Salt == b.Salt && slices.EqualFunc(a.Frames, b.Frames, func(x, y pack.Frame) bool {
		return x.Offset == y.Offset && x.Sealed == y.Sealed && x.Raw == y.Raw && x.Codec == y.Codec &&
			slices.Equal(x.Blobs, y.Blobs)
	})
}
