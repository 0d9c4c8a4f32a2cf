package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// packer holds the open pack of one kind.
type packer struct {
	s      *Session
	kind   pack.Kind
	target int // bytes at which the pack is complete
	frame  int // bytes at which a frame is complete

	mu     sync.Mutex  // also held while waiting for a buffer, when no append is possible anyway
	held   atomic.Bool // the holder of mu waits for the store
	open   *pack.Builder
	opened time.Time // when open was begun

	buffers chan []byte // free buffers without memory; its capacity is their maximum number
	made    int         // buffers that exist
}

// trailerRoom is how far a pack may exceed its target: the trailer, at 36 bytes a blob. A pack of more and smaller
// blobs is complete before it reaches the target.
const trailerRoom = 256 << 10

// bufferCounts divides the memory of a session: one pack of each kind is always open, the others are being uploaded.
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

// append seals one frame into the open pack, and dispatches the pack when it is complete. If the frame does not fit
// into the buffer, the pack is dispatched first. Only a frame as long as a whole pack makes a buffer grow.
func (p *packer) append(payload *pack.Payload) error {
	if !p.mu.TryLock() {
		done := p.behind()
		p.mu.Lock()
		done()
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
		p.open = pack.NewBuilder(p.s.to.Keys, p.kind, buf)
		p.opened = p.s.opt.Tuning.Now()
	}
	before := p.open.Size()
	if err := p.open.Append(payload); err != nil {
		return err
	}
	p.s.countFrame(p.kind, len(payload.Blobs), int(payload.Raw))
	p.s.opt.Ledger.Bytes.Compressed.Add(uint64(p.open.Size() - before))
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
	defer p.waiting()()
	select {
	case buf := <-p.buffers:
		return buf, nil
	case <-p.s.ctx.Done():
		return nil, context.Cause(p.s.ctx)
	}
}

// waiting measures how long the holder of mu is blocked by the store; call its result at the end.
func (p *packer) waiting() func() {
	p.held.Store(true)
	end := p.s.opt.Ledger.Blocked()
	p.s.blocked.Begin()
	return func() {
		p.s.blocked.End()
		end()
		p.held.Store(false)
	}
}

// behind measures how long a caller waits for mu, whose holder seals, or waits for the store.
func (p *packer) behind() func() {
	end := func() {}
	if p.held.Load() {
		end = p.s.opt.Ledger.Blocked()
	}
	p.s.blocked.Begin()
	return func() {
		p.s.blocked.End()
		end()
	}
}

// dispatch hands the open pack to an upload of its own, once an upload slot is free. Uploads never wait for a packer,
// so waiting for them here cannot deadlock.
func (p *packer) dispatch() error {
	if !p.s.uploads.tryEnter() {
		done := p.waiting()
		err := p.s.uploads.enter(p.s.ctx)
		done()
		if err != nil {
			return err
		}
	}
	builder := p.open
	p.open = nil
	go func() {
		defer p.s.uploads.leave()
		buf, batch, err := p.s.upload(builder)
		if err != nil {
			_ = p.s.fail(err)
		}
		letGo(buf[:cap(buf)])
		p.buffers <- buf[:0] // the channel has capacity for every buffer
		if len(batch) == 0 {
			return
		}
		if err := p.s.writeSegment(p.s.ctx, batch); err != nil { // the next pack is filled meanwhile
			_ = p.s.fail(err)
		}
	}()
	return nil
}

// upload completes a pack, puts it, verifies it and queues it for the index. It returns the buffer of the pack, and the
// packs for an index segment when there are enough.
func (s *Session) upload(b *pack.Builder) (buf []byte, batch []index.Pack, err error) {
	data, table, err := b.Finish()
	if err != nil {
		return data, nil, fmt.Errorf("complete pack: %w", err)
	}
	if err := s.err(); err != nil {
		return data, nil, err
	}
	start := s.opt.Tuning.Now()
	id := pack.ID(data)
	s.begins()
	if err := s.st.Put(s.ctx, object.Named(store.Pack, id), data); err != nil {
		return data, nil, fmt.Errorf("store pack %s: %w", id.Short(), err)
	}
	err = s.prove(s.ctx, id, data, &table)
	if err != nil && s.ctx.Err() != nil { // an interrupt after the pack was stored: without a proof it is in no segment
		last, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), proofTimeout)
		err = s.prove(last, id, data, &table)
		cancel()
	}
	if err := s.removed(s.ctx, err); err != nil {
		return data, nil, fmt.Errorf("verify pack %s: %w", id.Short(), err)
	}
	s.stored(store.Pack, id, len(data), start)
	if table.Kind == pack.Trees && !s.opt.DryRun {
		s.to.Trees.Keep(id, data, table.Frames)
	}
	return data, s.seg.add(index.Pack{ID: id, Size: uint64(len(data)), Table: table}, s.opt.Tuning), nil
}

// proofTimeout limits how long a pack that was stored before an interrupt is read back after it.
const proofTimeout = 2 * time.Second

// prove reads back size and trailer of a pack from the target, unless the store has done so.
func (s *Session) prove(ctx context.Context, id format.ID, data []byte, want *pack.Table) error {
	if s.opt.DryRun || store.VerifiesPut(s.st) && trailer(data, want) <= store.ProvenEnd {
		return nil
	}
	name := object.Named(store.Pack, id)
	info, err := s.st.Stat(ctx, name)
	if err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	if info.Size != int64(len(data)) {
		return fmt.Errorf("%d bytes were sent, %d are there: %w", len(data), info.Size, ErrMismatch)
	}
	got, err := pack.OpenTable(s.to.Keys, id, info.Size, func(off int64, p []byte) error {
		return s.st.Get(ctx, name, off, p)
	})
	if err != nil {
		return fmt.Errorf("read back its trailer: %w", err)
	}
	if !equalTables(&got, want) {
		return fmt.Errorf("its trailer lists other frames: %w", ErrMismatch)
	}
	return nil
}

// trailer returns how many bytes of a pack follow its frames.
func trailer(data []byte, t *pack.Table) int {
	if len(t.Frames) == 0 {
		return len(data)
	}
	last := t.Frames[len(t.Frames)-1]
	return len(data) - int(last.Offset) - int(last.Sealed)
}

func equalTables(a, b *pack.Table) bool {
	return a.Kind == b.Kind && a.Salt == b.Salt && slices.EqualFunc(a.Frames, b.Frames, func(x, y pack.Frame) bool {
		return x.Offset == y.Offset && x.Sealed == y.Sealed && x.Raw == y.Raw && x.Codec == y.Codec &&
			slices.Equal(x.Blobs, y.Blobs)
	})
}
