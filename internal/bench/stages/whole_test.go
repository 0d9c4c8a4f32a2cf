package stages

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// discard receives the results of a walk and drops them.
type discard struct{ tb testing.TB }

func (discard) Directory(context.Context, *scan.Directory, *report.Clock) error { return nil }
func (n discard) Entry(_ *scan.Directory, name string, err error)               { n.tb.Errorf("%s: %v", name, err) }
func (discard) Excluded(*scan.Directory, int)                                   {}

// BenchmarkScan is the walk alone, with warm caches: its gain from more walkers, and its system calls.
func BenchmarkScan(b *testing.B) {
	for _, workers := range []int{1, 2, 4, 8, 16} {
		b.Run("scanners="+strconv.Itoa(workers), func(b *testing.B) {
			set := tiny(b)
			pick, err := scan.Sources([]string{set.Root()})
			require.NoError(b, err)
			gate := newGate("source")
			var since uint64
			run(b, stage{
				objects: int(set.Objects), system: workers == 1 || workers == 4,
				before: func() { since = gate.Stats().Operations },
				do: func() {
					require.NoError(b, scan.Walk(context.Background(), pick, scan.Options{
						Workers: workers, Rules: rules.NewBuilder().Compile(), Ledger: report.New(time.Now), Gate: through(gate),
					}, discard{b}))
				},
				counts: func(m metrics) {
					m(float64(gate.Stats().Operations-since)/float64(set.Objects), "source-ops/obj")
				},
			})
		})
	}
}

// BenchmarkReadSmall opens, reads and closes every tiny file, one after the other, through the door.
func BenchmarkReadSmall(b *testing.B) {
	set := tiny(b)
	buf, names, files := make([]byte, 64<<10), make([]byte, 32<<10), 0
	var walk func(d *localfs.Dir) error
	walk = func(d *localfs.Dir) error {
		defer d.Release()
		var inside, below []string
		err := d.Entries(names, func(name []byte, typ tree.Type, _ uint64) error {
			if typ == tree.Dir {
				below = append(below, string(name))
			} else {
				inside = append(inside, string(name))
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, name := range inside {
			f, err := d.OpenFile(name)
			if err != nil {
				return err
			}
			if _, err := f.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			files++
			if err := f.Close(); err != nil {
				return err
			}
		}
		for _, name := range below {
			sub, err := d.Open(name)
			if err == nil {
				err = walk(sub)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	run(b, stage{
		objects: int(set.Objects), bytes: set.Bytes, system: true,
		do: func() {
			d, err := localfs.OpenDir(set.Root())
			require.NoError(b, err)
			require.NoError(b, walk(d))
			require.Positive(b, files)
		},
	})
}

// BenchmarkFirst is a first backup from beginning to end, into a folder: of tiny files, which shows the cost per file,
// and of large ones, which shows the cost per byte.
func BenchmarkFirst(b *testing.B) {
	set := tiny(b)
	dir, size := large(b)
	for _, data := range []struct {
		name, root string
		objects    int
		bytes      int64
	}{
		{"tiny", set.Root(), int(set.Objects), set.Bytes}, {"large", dir, 3, size},
	} {
		b.Run(data.name, func(b *testing.B) {
			var e *engine
			var since moved
			run(b, stage{
				objects: data.objects, bytes: data.bytes, system: true,
				before: func() { e = newEngine(b); since = e.moved() },
				do:     func() { e.backup(data.root) },
				counts: func(m metrics) {
					e.operations(since, data.objects, m)
					t := e.ledger.Snapshot()
					blobs := float64(t.Blobs.New + t.Trees.New)
					pages := float64(e.moved().cache.Moved.Written-since.cache.Moved.Written) / float64(os.Getpagesize())
					m(pages/blobs, "pages/blob")
					// Every chunk and every tree page is hashed for its ID, every pack for its name.
					stored := e.moved().target.Moved.Written - since.target.Moved.Written
					hashed := t.Bytes.BeforeDedup + t.Bytes.Trees + stored
					m(float64(hashed)/float64(t.Bytes.Read), "hashed-B/read-B")
					m(float64(t.Bytes.Read)/float64(data.bytes), "read-B/B")
					m(float64(stored)/float64(data.bytes), "stored-B/B")
				},
			})
		})
	}
}

// BenchmarkUnchanged is a backup of what has not changed, with warm caches. It reads no data.
func BenchmarkUnchanged(b *testing.B) {
	set := tiny(b)
	e := newEngine(b)
	e.backup(set.Root())
	e.backup(set.Root()) // what was young at the first is looked at again
	var since moved
	run(b, stage{
		objects: int(set.Objects), system: true,
		before: func() { since = e.moved() },
		do:     func() { e.backup(set.Root()) },
		counts: func(m metrics) {
			e.operations(since, int(set.Objects), m)
			m(float64(e.ledger.Snapshot().Bytes.Read), "read-B")
			written := e.moved().cache.Moved.Written - since.cache.Moved.Written
			m(float64(written)/float64(os.Getpagesize())/float64(set.Objects), "pages/obj")
		},
	})
}

// BenchmarkRestore brings the tiny files back to an empty folder.
func BenchmarkRestore(b *testing.B) {
	set := tiny(b)
	e := newEngine(b)
	e.backup(set.Root())
	out := filepath.Join(e.dir, "out")
	var since moved
	run(b, stage{
		objects: int(set.Objects), bytes: set.Bytes, system: true,
		before: func() {
			require.NoError(b, os.RemoveAll(out))
			since = e.moved()
		},
		do:     func() { e.restore(out) },
		counts: func(m metrics) { e.operations(since, int(set.Objects), m) },
	})
}

// BenchmarkCheck reads back everything of a repository of tiny and large files.
func BenchmarkCheck(b *testing.B) {
	set := tiny(b)
	dir, size := large(b)
	e := newEngine(b)
	e.backup(set.Root())
	e.backup(dir)
	var since moved
	run(b, stage{
		objects: int(set.Objects), bytes: set.Bytes + size, system: true,
		before: func() { since = e.moved() },
		do:     func() { e.check() },
		counts: func(m metrics) {
			e.operations(since, int(set.Objects), m)
			stored := e.moved().target.Moved.Read - since.target.Moved.Read
			m(float64(stored)/1e6, "fetched-MB")
		},
	})
}
