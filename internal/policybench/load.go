package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	// piece is how much is read at once at full speed.
	piece = 1 << 20
	// packSize is how much is written between two flushes.
	packSize = 16 << 20
)

// running is a load like that of a backup: two readers of a cold tree, who compress what they read, and one who writes as
// much as is left, and flushes it. Each operation passes a gate.
type running struct {
	pass   *iopolicy.Pass
	cancel context.CancelFunc
	done   sync.WaitGroup

	syncing atomic.Int64  // flushes at the device now
	syncs   atomic.Uint64 // begun so far

	mu    sync.Mutex
	begun []time.Time
	err   error
}

// flushes tells how many flushes are at the device, and how many have begun so far.
func (l *running) flushes() (int, uint64) { return int(l.syncing.Load()), l.syncs.Load() }

// start begins to read a tree, over and over, and to write into a folder, until end is called.
func (l *running) start(ctx context.Context, pass *iopolicy.Pass, tree, into string) {
	l.pass = pass
	ctx, l.cancel = context.WithCancel(ctx)
	paths := make(chan string)
	packed := make(chan int)
	l.do(ctx, func() error { defer close(paths); return l.walk(ctx, tree, paths) })
	for range 2 {
		l.do(ctx, func() error { return l.read(ctx, paths, packed) })
	}
	l.do(ctx, func() error { return l.write(ctx, into, packed) })
}

// do runs one of the workers; the first error that is not the end ends all.
func (l *running) do(ctx context.Context, work func() error) {
	l.done.Go(func() {
		err := work()
		if err == nil || ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		l.err = errors.Join(l.err, err)
		l.mu.Unlock()
		l.cancel()
	})
}

// end stops the workers and tells what went wrong.
func (l *running) end() error {
	l.cancel()
	l.done.Wait()
	return l.err
}

// began returns when the operations so far began, in order up to what other threads did meanwhile.
func (l *running) began() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// op does one operation through the gate.
func (l *running) op(ctx context.Context, op iopolicy.Op, f func(bound int) (int, error)) (int, error) {
	return l.pass.Do(ctx, op, func(bound int) (int, error) {
		at := time.Now()
		l.mu.Lock()
		l.begun = append(l.begun, at)
		l.mu.Unlock()
		return f(bound)
	})
}

// walk sends the files of a tree, over and over. Each time the caches are dropped, or there would be nothing to read.
func (l *running) walk(ctx context.Context, tree string, paths chan<- string) error {
	for {
		err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			select {
			case paths <- path:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err != nil {
			return err
		}
		if err := dropCaches(); err != nil {
			return err
		}
	}
}

// read reads files and sends how large they are when they are compressed.
func (l *running) read(ctx context.Context, paths <-chan string, packed chan<- int) error {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	buffer, into := make([]byte, piece), make([]byte, 0, 2*piece)
	use := func(data []byte) error {
		select {
		case packed <- len(zip.EncodeAll(data, into)):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for path := range paths {
		if err := l.readFile(ctx, path, buffer, use); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	return nil
}

func (l *running) readFile(ctx context.Context, path string, buffer []byte, use func([]byte) error) (err error) {
	var f *os.File
	if _, err := l.op(ctx, iopolicy.Op{Kind: iopolicy.Metadata}, func(int) (_ int, err error) {
		f, err = os.Open(path)
		return 0, err
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for {
		n, err := l.op(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: len(buffer)}, func(bound int) (int, error) {
			return f.Read(buffer[:bounded(len(buffer), bound)])
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = use(buffer[:n])
		}
		if err != nil {
			return err
		}
	}
}

// bounded is the largest size that is allowed; a bound of 0 allows any.
func bounded(n, bound int) int {
	if bound > 0 {
		return min(n, bound)
	}
	return n
}

// written is how many files are written in turn.
const written = 4

// write writes some files over and over, one whenever enough has come for it, each flushed at its end. No file is made or removed meanwhile: what the journal
// has to say of that is written when nobody does anything here, and would not be this load's.
func (l *running) write(ctx context.Context, into string, packed <-chan int) error {
	if err := os.MkdirAll(into, 0o700); err != nil {
		return err
	}
	data := make([]byte, piece)
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for i := range written {
		f, err := os.Create(filepath.Join(into, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	for i, waiting := 0, 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case n := <-packed:
			if waiting += n; waiting < packSize {
				continue
			}
		}
		if err := l.pack(ctx, files[i%written], data); err != nil {
			return err
		}
		i, waiting = i+1, 0
	}
}

func (l *running) pack(ctx context.Context, f *os.File, data []byte) error {
	for at := 0; at < packSize; {
		want := min(packSize-at, len(data))
		n, err := l.op(ctx, iopolicy.Op{Kind: iopolicy.Write, Bytes: want}, func(bound int) (int, error) {
			return f.WriteAt(data[:bounded(want, bound)], int64(at))
		})
		if err != nil {
			return err
		}
		at += n
	}
	_, err := l.op(ctx, iopolicy.Op{Kind: iopolicy.Sync, Certain: true}, func(int) (int, error) {
		l.syncs.Add(1)
		l.syncing.Add(1)
		defer l.syncing.Add(-1)
		return 0, f.Sync()
	})
	return err
}
