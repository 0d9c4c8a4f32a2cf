package rig

import (
	"context"
	"math/rand/v2"
	"os"
	"time"
	"unsafe"
)

// Toucher reads single blocks of the foreground's file.
type Toucher struct {
	file   *os.File
	buffer []byte
	random *rand.Rand
}

// block is the size of one read.
const block = 4096

// NewToucher opens the file for reads that bypass the page cache.
func NewToucher(path string) (*Toucher, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|direct, 0)
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, 2*block)
	skip := (block - int(uintptr(unsafe.Pointer(&buffer[0]))%block)) % block // direct I/O needs aligned memory
	t := &Toucher{file: f, buffer: buffer[skip : skip+block : skip+block]}
	t.random = rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	return t, nil
}

func (t *Toucher) offset() int64 { return t.random.Int64N(ForegroundSize/block) * block }

// Read reads one block at a random offset.
func (t *Toucher) Read() error {
	_, err := t.file.ReadAt(t.buffer, t.offset())
	return err
}

// Close closes the file.
func (t *Toucher) Close() error { return t.file.Close() }

// Hammer reads one block after the other for some time, and returns when the first began and the last ended.
func (t *Toucher) Hammer(ctx context.Context, d time.Duration) (from, to time.Time, err error) {
	from = time.Now()
	for to = from; to.Sub(from) < d; to = time.Now() {
		if ctx.Err() != nil {
			return from, to, context.Cause(ctx)
		}
		if err := t.Read(); err != nil {
			return from, to, err
		}
	}
	return from, to, nil
}
