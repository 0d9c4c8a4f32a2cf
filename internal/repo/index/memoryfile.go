package index

import (
	"io"
	"sync"
)

const (
	// memoryFileMax is the maximum size of a memoryFile: the index of about a million blobs.
	memoryFileMax = 128 << 20
	memoryPiece   = 1 << 20
)

// memoryFile is the file of a Temporary where no disk has space for one. It is safe for concurrent use.
type memoryFile struct {
	mu     sync.RWMutex
	pieces [][]byte
	size   int64
}

// WriteAt writes all of p.
func (f *memoryFile) WriteAt(p []byte, off int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := off + int64(len(p))
	if end > memoryFileMax {
		return 0, ErrNoFolder
	}
	for int64(len(f.pieces))*memoryPiece < end {
		f.pieces = append(f.pieces, make([]byte, memoryPiece))
	}
	f.size = max(f.size, end)
	for n < len(p) {
		at := off + int64(n)
		n += copy(f.pieces[at/memoryPiece][at%memoryPiece:], p[n:])
	}
	return n, nil
}

// ReadAt fills p, except beyond the end.
func (f *memoryFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for n < len(p) {
		at := off + int64(n)
		if at >= f.size {
			return n, io.EOF
		}
		piece := f.pieces[at/memoryPiece][at%memoryPiece:]
		n += copy(p[n:], piece[:min(int64(len(piece)), f.size-at)])
	}
	return n, nil
}

// Close releases the memory.
func (f *memoryFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pieces, f.size = nil, 0
	return nil
}
