package rig

import (
	"context"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"
	"unsafe"
)

// Toucher reads and writes single blocks of the foreground's file.
type Toucher struct {
	file   *os.File
	bytes  atomic.Uint64 // read so far
	buffer []byte
	random *rand.Rand
}

// block is what is read at once.
const block = 4096

// NewToucher opens the file. A reader passes the page cache by.
func NewToucher(path string, write bool) (*Toucher, error) {
	flags := os.O_RDONLY | direct
	if write {
		flags = os.O_WRONLY
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, 2*block)
	skip := (block - int(uintptr(unsafe.Pointer(&buffer[0]))%block)) % block // direct I/O wants aligned memory
	t := &Toucher{file: f, buffer: buffer[skip : skip+block : skip+block]}
	t.random = rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	return t, nil
}

func (t *Toucher) offset() int64 { return t.random.Int64N(ForegroundSize/block) * block }

// Read reads one block somewhere.
func (t *Toucher) Read() error {
	n, err := t.file.ReadAt(t.buffer, t.offset())
	t.bytes.Add(uint64(n))
	return err
}

// Write writes one block somewhere and flushes it.
func (t *Toucher) Write() error {
	t.buffer[0]++
	if _, err := t.file.WriteAt(t.buffer, t.offset()); err != nil {
		return err
	}
	return t.file.Sync()
}

// Bytes is how much has been read so far.
func (t *Toucher) Bytes() uint64 { return t.bytes.Load() }

// Close closes the file.
func (t *Toucher) Close() error { return t.file.Close() }

// Hammer reads one block after the other for some time, and tells when the first was asked for and the last there.
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
