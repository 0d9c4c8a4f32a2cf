package session

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// FrameWriter gathers blobs of one kind into frames. It is safe for concurrent use: all workers of a session fill one
// frame, so that what was read together is compressed together. The caller that completes a frame compresses it, so
// all workers compress in parallel; only the sealing of a compressed frame is shared.
type FrameWriter struct {
	s  *Session
	to *packer

	mu      sync.Mutex
	open    *frame
	free    []*frame
	storing sync.RWMutex // held for reading while a frame is compressed and sealed; locked after mu
}

// frame is blobs before compression.
type frame struct {
	raw   []byte
	blobs []pack.Blob
}

// Writer returns the writer of blobs of that kind. A caller that has no more blobs flushes it.
func (s *Session) Writer(kind pack.Kind) *FrameWriter { return &s.writers[slot(kind)] }

// Put claims and adds one blob. It reports whether neither the repository nor another writer of the session has it.
func (s *Session) Put(kind pack.Kind, id format.ID, blob []byte) (fresh bool, err error) {
	var one [1]bool
	if err := s.Claim([]format.ID{id}, one[:]); err != nil || !one[0] {
		return false, err
	}
	return true, s.Writer(kind).Add(id, blob)
}

// Add takes a blob that the caller has claimed. blob is copied. A full frame is compressed and sealed here, which
// blocks while all buffers are being uploaded.
func (w *FrameWriter) Add(id format.ID, blob []byte) error {
	if len(blob) > pack.MaxFrameRaw {
		return w.s.fail(fmt.Errorf("store blob of %d bytes: %w", len(blob), ErrTooLarge))
	}
	target := w.to.frame
	w.mu.Lock()
	for w.open != nil && (len(w.open.raw)+len(blob) > target || len(w.open.blobs) == pack.MaxFrameBlobs) {
		if err := w.store(); err != nil { // and others may have filled the next one meanwhile
			w.mu.Unlock()
			return err
		}
	}
	if w.open == nil {
		w.open = w.empty(max(target, len(blob)))
	}
	w.open.raw = append(w.open.raw, blob...)
	w.open.blobs = append(w.open.blobs, pack.Blob{ID: id, Len: uint32(len(blob))})
	var err error
	if len(w.open.raw) >= target {
		err = w.store()
	}
	w.mu.Unlock()
	return err
}

// empty returns a frame without blobs; w.mu is held.
func (w *FrameWriter) empty(size int) *frame {
	n := len(w.free)
	if n == 0 {
		return &frame{raw: make([]byte, 0, size)}
	}
	f := w.free[n-1]
	w.free = w.free[:n-1]
	return f
}

// Flush passes on the blobs that were added since the last full frame, and waits for frames that other callers store.
// Without any it does nothing.
func (w *FrameWriter) Flush() error {
	w.mu.Lock()
	err := w.s.err()
	if w.open != nil && err == nil {
		err = w.store()
	}
	w.mu.Unlock()
	w.storing.Lock()
	defer w.storing.Unlock()
	return err
}

// store compresses and seals the open frame. w.mu is held at the beginning and at the end, and free meanwhile.
func (w *FrameWriter) store() error {
	f := w.open
	w.open = nil
	w.storing.RLock()
	w.mu.Unlock()
	err := w.seal(f)
	w.storing.RUnlock()
	w.mu.Lock()
	f.raw, f.blobs = f.raw[:0], f.blobs[:0]
	w.free = append(w.free, f)
	return err
}

func (w *FrameWriter) seal(f *frame) error {
	if err := w.s.err(); err != nil {
		return err
	}
	p, err := w.s.compressors.get()
	if err != nil {
		return w.s.fail(err)
	}
	defer w.s.compressors.put(p)
	codec, data := p.compressor.Compress(p.out[:0], f.raw)
	if codec != pack.Stored {
		p.out = data
	}
	payload := &pack.Payload{Codec: codec, Blobs: f.blobs, Raw: uint32(len(f.raw)), Data: data}
	if err := w.to.append(payload); err != nil {
		return w.s.fail(fmt.Errorf("add frame to pack: %w", err))
	}
	return nil
}

// pooledCompressor is a compressor with the buffer for its output. Both writers of a session share them, because
// a worker uses one at a time.
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
