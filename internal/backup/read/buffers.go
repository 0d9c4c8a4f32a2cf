package read

import (
	"context"
	"sync"
)

// Buffers is the memory for file data on its way from readers to the workers that store it: a fixed number of equal
// buffers, allocated on first use. A reader waits for one before it reads, so data in flight never exceeds their sum.
//
// The buffer that was put back last is lent first: its bytes are still in the processor's cache, and a run with few
// buffers in flight never allocates the others.
type Buffers struct {
	lent chan struct{} // one for each buffer that is lent
	size int

	mu   sync.Mutex
	free [][]byte // those that exist and are not lent
}

// NewBuffers returns count buffers of size bytes.
func NewBuffers(count, size int) *Buffers {
	return &Buffers{lent: make(chan struct{}, count), size: size, free: make([][]byte, 0, count)}
}

// Get waits for a buffer.
func (b *Buffers) Get(ctx context.Context) ([]byte, error) {
	select {
	case b.lent <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.free)
	if n == 0 {
		return make([]byte, b.size), nil
	}
	buf := b.free[n-1]
	b.free[n-1] = nil
	b.free = b.free[:n-1]
	return buf, nil
}

// Put returns a buffer.
func (b *Buffers) Put(buf []byte) {
	b.mu.Lock()
	b.free = append(b.free, buf)
	b.mu.Unlock()
	<-b.lent // after the append, so that the next Get finds the buffer
}

// Size returns the length of each buffer in bytes.
func (b *Buffers) Size() int { return b.size }
