package backup

import "context"

// buffers is the memory for file data on its way from readers to workers: a fixed number of equal buffers, made when
// first needed. A reader waits for one before it reads, so data in flight never exceeds their sum.
type buffers struct {
	free chan []byte
	size int
}

func newBuffers(count, size int) *buffers {
	b := &buffers{free: make(chan []byte, count), size: size}
	for range count {
		b.free <- nil
	}
	return b
}

func (b *buffers) get(ctx context.Context) ([]byte, error) {
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

func (b *buffers) put(buf []byte) { b.free <- buf }
