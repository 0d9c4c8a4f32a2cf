package session

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// FrameWriter gathers blobs of one kind into a frame. It belongs to one goroutine. Copying and compressing run in the
// caller, so all workers compress in parallel; only the sealing of a finished frame is shared.
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

// Add takes a blob that the caller has claimed. blob is copied. A full frame is compressed and sealed here, which
// blocks while all buffers are being uploaded.
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

// Flush passes on the blobs that were added since the last full frame. Without any it does nothing.
func (w *FrameWriter) Flush() error {
	if err := w.s.err(); err != nil {
		return err
	}
	if len(w.blobs) == 0 {
		return nil
	}
	p, err := w.s.compressors.get()
	if err != nil {
		return w.s.fail(err)
	}
	defer w.s.compressors.put(p)
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

// pooledCompressor is a compressor with the buffer for its output. All writers of a session share them, because a
// worker has several writers and uses one at a time.
type pooledCompressor struct {
	compressor *pack.Compressor
	level      int
	out        []byte
}

type compressors struct {
	level atomic.Int32
	frame int // bytes of the largest kind

	mu   sync.Mutex
	free []*pooledCompressor
}

// get returns a pooledCompressor of the current level. Pooled ones of another level are discarded.
func (ps *compressors) get() (*pooledCompressor, error) {
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
	return &pooledCompressor{compressor: c, level: level, out: out}, nil
}

func (ps *compressors) put(p *pooledCompressor) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.free = append(ps.free, p)
}
