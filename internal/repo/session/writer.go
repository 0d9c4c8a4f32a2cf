package session

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// FrameWriter gathers blobs of one kind into a frame. It belongs to one goroutine: copying and compressing happen in
// the caller, so that as many cores compress as there are workers, and only the sealing of a finished frame is shared.
type FrameWriter struct {
	s     *Session
	to    *packer
	raw   []byte
	blobs []pack.Blob
}

// Writer returns a new writer of blobs of that kind. The caller flushes it when it has no more blobs.
func (s *Session) Writer(kind pack.Kind) *FrameWriter {
	return &FrameWriter{s: s, to: s.packers[slot(kind)]}
}

// Add takes a blob that the caller has claimed. blob is copied. When a frame is full it is compressed and sealed here,
// which waits while all buffers are on their way to the target.
func (w *FrameWriter) Add(id format.ID, blob []byte) error {
	if len(blob) > pack.MaxFrameRaw {
		return w.s.fail(fmt.Errorf("store blob of %d bytes: %w", len(blob), ErrTooLarge))
	}
	target := w.to.frame
	if len(w.blobs) > 0 && (len(w.raw)+len(blob) > target || len(w.blobs) == pack.MaxFrameBlobs) {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if w.raw == nil {
		w.raw = make([]byte, 0, max(target, len(blob)))
	}
	w.raw = append(w.raw, blob...)
	w.blobs = append(w.blobs, pack.Blob{ID: id, Len: uint32(len(blob))})
	if len(w.raw) >= target {
		return w.Flush()
	}
	return nil
}

// Flush hands over the blobs that were added since the last full frame. Without any it does nothing.
func (w *FrameWriter) Flush() error {
	if err := w.s.err(); err != nil {
		return err
	}
	if len(w.blobs) == 0 {
		return nil
	}
	p, err := w.s.presses.get()
	if err != nil {
		return w.s.fail(err)
	}
	defer w.s.presses.put(p)
	codec, data := p.compressor.Compress(p.out[:0], w.raw)
	if codec != pack.Stored {
		p.out = data
	}
	payload := &pack.Payload{Codec: codec, Blobs: w.blobs, Raw: uint32(len(w.raw)), Data: data}
	if err := w.to.append(payload); err != nil {
		return w.s.fail(fmt.Errorf("add frame to pack: %w", err))
	}
	w.raw, w.blobs = w.raw[:0], w.blobs[:0]
	return nil
}

// press is a compressor with the buffer for its output. Presses are shared by all writers of a session, because a
// worker has several writers and uses one at a time.
type press struct {
	compressor *pack.Compressor
	level      int
	out        []byte
}

type presses struct {
	level atomic.Int32
	frame int // bytes of the largest kind

	mu   sync.Mutex
	free []*press
}

// get returns a press of the level that is wanted now. Those of another one are given up when they are met.
func (ps *presses) get() (*press, error) {
	level := int(ps.level.Load())
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []byte
	if n := len(ps.free); n > 0 {
		p := ps.free[n-1]
		ps.free[n-1] = nil
		ps.free = ps.free[:n-1]
		if p.level == level {
			return p, nil
		}
		out = p.out
	}
	c, err := pack.NewCompressor(level, ps.frame)
	if err != nil {
		return nil, fmt.Errorf("make compressor: %w", err)
	}
	return &press{compressor: c, level: level, out: out}, nil
}

func (ps *presses) put(p *press) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.free = append(ps.free, p)
}
