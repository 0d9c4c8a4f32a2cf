package misses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	// piece is how much is read at once at full speed.
	piece = 1 << 20
	// packSize is how much is stored at once.
	packSize = 16 << 20
)

// running is a load like that of a backup, through the same two doors and one gate: a tree is walked, two readers read and
// compress its cold files, and one stores as much as is left.
type running struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu   sync.Mutex
	read []time.Time // when operations of the readers ended
	err  error
}

// startLoad begins to read a tree, over and over, and to store into a folder, until end is called.
func startLoad(ctx context.Context, pass *iopolicy.Pass, root, into string) (*running, error) {
	s, err := local.Create(into, pass)
	if err != nil {
		return nil, err
	}
	l := &running{}
	ctx, l.cancel = context.WithCancel(ctx)
	files, packed := make(chan *localfs.File), make(chan int)
	l.do(ctx, func() error { defer close(files); return walk(ctx, localfs.Door{Ctx: ctx, Pass: pass}, root, files) })
	for range 2 {
		l.do(ctx, func() error { return l.reader(ctx, files, packed) })
	}
	l.do(ctx, func() error { return write(ctx, s, packed) })
	return l, nil
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

// ended returns when the readers' operations so far ended, in order.
func (l *running) ended() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read
}

// walk opens the files of a tree, over and over. Each time the caches are dropped, or there would be nothing to read.
func walk(ctx context.Context, door localfs.Door, root string, files chan<- *localfs.File) error {
	for {
		d, err := door.OpenDir(root)
		if err != nil {
			return err
		}
		err = walkDir(ctx, d, files)
		d.Release()
		if err != nil {
			return err
		}
		if err := rig.DropCaches(); err != nil {
			return err
		}
	}
}

func walkDir(ctx context.Context, d *localfs.Dir, files chan<- *localfs.File) error {
	kinds := map[string]tree.Type{}
	err := d.Entries(nil, func(name []byte, kind tree.Type, _ uint64) error {
		kinds[string(name)] = kind
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[name] == tree.Dir {
			below, err := d.Open(name)
			if err != nil {
				return err
			}
			err = walkDir(ctx, below, files)
			below.Release()
			if err != nil {
				return err
			}
			continue
		}
		f, err := d.OpenFile(name)
		if err != nil {
			return err
		}
		select {
		case files <- f:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), f.Close())
		}
	}
	return nil
}

// reader reads files and sends how large they are when they are compressed.
func (l *running) reader(ctx context.Context, files <-chan *localfs.File, packed chan<- int) error {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	buffer, into := make([]byte, piece), make([]byte, 0, 2*piece)
	for f := range files {
		err := l.readFile(f, buffer, func(data []byte) error {
			select {
			case packed <- len(zip.EncodeAll(data, into)):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (l *running) readFile(f *localfs.File, buffer []byte, use func([]byte) error) error {
	for {
		want := buffer
		if bound := f.Bound(); bound > 0 {
			want = buffer[:min(bound, len(buffer))]
		}
		n, err := f.Read(want)
		at := time.Now()
		l.mu.Lock()
		l.read = append(l.read, at)
		l.mu.Unlock()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = use(want[:n])
		}
		if err != nil {
			return err
		}
	}
}

// write stores a pack whenever enough has come for it.
func write(ctx context.Context, s store.Store, packed <-chan int) error {
	data := make([]byte, packSize)
	for i, waiting := 0, 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case n := <-packed:
			if waiting += n; waiting < packSize {
				continue
			}
		}
		// Packs are named by their content; two folders of them are used at once, as by a hash.
		name := store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x%062x", i%256, i)}
		if err := s.Put(ctx, name, data); err != nil {
			return fmt.Errorf("store %s: %w", path.Join(s.Location(), name.ID), err)
		}
		i, waiting = i+1, 0
	}
}
