package crew

import "context"

// Buffers is the memory for file data on its way from readers to workers: a fixed number of equal buffers, made when
// first needed. A reader waits for one before it reads, so data in flight never exceeds their sum.
type Buffers struct {
	free chan []byte
	size int
}

// NewBuffers returns count buffers of size bytes.
func NewBuffers(count, size int) *Buffers {
	b := &Buffers{free: make(chan []byte, count), size: size}
	for range count {
		b.free <- nil
	}
	return b
}

// Get waits for a buffer.
func (b *Buffers) Get(ctx context.Context) ([]byte, error) {
	select {
	case buf := <-b.free:
		if buf == nil {
			buf = make([]byte, b.size)
		}
		return buf, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Put gives a buffer back.
func (b *Buffers) Put(buf []byte) { b.free <- buf }

// Size returns the length of each buffer in bytes.
func (b *Buffers) Size() int { return b.size }
