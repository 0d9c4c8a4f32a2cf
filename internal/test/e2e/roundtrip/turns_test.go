package roundtrip

import (
	"bytes"
	"context"
	"iter"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// turn is how long each operation on a far store takes. What a program does itself takes no time in the tests below, so
// the time that has passed is the number of operations that waited for one another. It is short, so that nothing that a
// session does regularly is due.
const turn = time.Millisecond

// far is a store behind a long line. It verifies what it stores, as a share does.
type far struct{ store.Store }

func (f far) VerifiesPut() bool { return true }

func (f far) Put(ctx context.Context, name store.Name, data []byte) error {
	time.Sleep(turn)
	return f.Store.Put(ctx, name, data)
}

func (f far) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	time.Sleep(turn)
	return f.Store.PutNew(ctx, name, data)
}

func (f far) Fence(ctx context.Context, name store.Name) error {
	time.Sleep(turn)
	return f.Store.Fence(ctx, name)
}

func (f far) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	time.Sleep(turn)
	return f.Store.Get(ctx, name, off, p)
}

func (f far) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	time.Sleep(turn)
	return f.Store.Stat(ctx, name)
}

func (f far) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		time.Sleep(turn)
		if kind == store.Pack { // their folders are listed before the files in them
			time.Sleep(turn)
		}
		f.Store.List(ctx, kind)(yield)
	}
}

func (f far) Delete(ctx context.Context, name store.Name) error {
	time.Sleep(turn)
	return f.Store.Delete(ctx, name)
}

// inVirtualTime calls fn where time passes only while all wait, beginning now: files of the real time must not lie in
// the future.
func inVirtualTime(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	now := time.Now().Round(0)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(now.Sub(time.Now().Round(0)) + time.Minute)
		fn(t)
	})
}

// turns returns how many operations on the store of e waited for one another while fn ran.
func turns(t *testing.T, e *kit.Engine, fn func() error) int {
	t.Helper()
	near := e.Store
	e.Store = far{near}
	defer func() { e.Store = near }()
	start := time.Now()
	require.NoError(t, fn())
	return int(time.Since(start) / turn)
}

// TestTurnsOfAnUnchangedBackup counts the operations that wait for one another: over a long line they decide how long
// it takes. Opening: the config beside the key slots, two each. The session: its lease; the marks; the index. Then the
// snapshots, which were read meanwhile, are listed once more. The packs, which take two turns, are listed beside index
// and snapshots. At the end the snapshot is stored, the lease renewed, and both leases removed.
func TestTurnsOfAnUnchangedBackup(t *testing.T) {
	dir := filepath.Join(testkit.RamDir(t), "src")
	smallFiles(t, dir, 200)
	inVirtualTime(t, func(t *testing.T) {
		e := kit.NewEngine(t, mem.New())
		unlock := e.Open.Unlock // as the command line does: which key it is depends on the repository
		e.Open.Unlock, e.Open.ByID = nil, func(_ string, opt *repo.OpenOptions) error {
			opt.Unlock = unlock
			return nil
		}
		var tree format.ID // of the last backup
		backup := func() error {
			out, _, err := e.Backup(e.Job(dir))
			if err == nil {
				tree = out.Snapshot.Tree
			}
			return err
		}
		for range 20 { // more snapshots than are read at the same time
			require.NoError(t, backup())
		}
		n := math.MaxInt
		// Another test may change a folder above the source, which is part of the tree, between two backups.
		for range 50 {
			before := tree
			if took := turns(t, e, backup); tree == before {
				n = took
				break
			}
		}
		t.Log(n)
		require.LessOrEqual(t, n, 9)
	})
}

// TestTurnsOfReadingTheIndex: a machine that has no cache reads many small index segments at the same time.
func TestTurnsOfReadingTheIndex(t *testing.T) {
	dir := filepath.Join(testkit.RamDir(t), "src")
	smallFiles(t, dir, 1000)
	inVirtualTime(t, func(t *testing.T) {
		e := kit.NewEngine(t, mem.New())
		job := e.Job(dir)
		job.Session.Tuning.DataPack, job.Session.Tuning.Frame, job.Session.Tuning.Segment = 8<<10, 4<<10, 1
		_, _, err := e.Backup(job)
		require.NoError(t, err)
		segments := kit.Count(t, e.Store, store.Index)
		require.Greater(t, segments, 48)
		e.Open.Cache.Dir = testkit.RamDir(t)
		n := turns(t, e, func() error {
			return e.With(func(r *repo.Repository) error { return r.Sync(t.Context()) })
		})
		t.Log(n, segments)
		require.LessOrEqual(t, n, 3+(segments+15)/16)
	})
}

// TestTurnsOfForgetAndPrune: half of the snapshots go, with packs that only they need.
func TestTurnsOfForgetAndPrune(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		p := kit.NewPruned(t, mem.New())
		for seed := range uint64(20) {
			p.Snapshot(seed)
		}
		n := turns(t, p.Engine, func() error {
			return p.With(func(r *repo.Repository) error {
				all, err := r.Snapshots(t.Context())
				if err != nil {
					return err
				}
				if _, _, err = forget.Drop(t.Context(), r, all[:10]); err != nil {
					return err
				}
				res, err := prune.Run(t.Context(), r, kit.SmallPrune())
				if err == nil {
					require.NotZero(t, res.Deleted.Packs)
				}
				return err
			})
		})
		t.Log(n)
		require.LessOrEqual(t, n, 62) // 57 to 61 in 50 runs: which of two answers comes first varies
	})
}

// TestTurnsOfOneFile: one file nine folders deep is restored, and dumped, by a machine that has its cache. Each folder
// takes an answer at most, and 50 times as many files hardly more.
func TestTurnsOfOneFile(t *testing.T) {
	const deep = "1/2/3/4/5/6/7/8"
	for _, files := range []int{60, 3000} {
		top := testkit.RamDir(t)
		smallFiles(t, filepath.Join(top, deep), files)
		one := filepath.Join(top, deep, "001", "file 51.txt")
		want, err := os.ReadFile(one)
		require.NoError(t, err)
		inVirtualTime(t, func(t *testing.T) {
			e := kit.NewEngine(t, mem.New())
			e.Open.Cache.Dir = testkit.RamDir(t)
			job := e.Job(top)
			job.Session.Tuning.DataPack, job.Session.Tuning.Frame = 64<<10, 4<<10
			_, _, err := e.Backup(job)
			require.NoError(t, err)
			n := turns(t, e, func() error {
				return e.RestorePart(t.Context(), restore.Selection{Sub: one}, restore.Target{Path: testkit.RamDir(t)})
			})
			var got bytes.Buffer
			m := turns(t, e, func() error {
				return e.With(func(r *repo.Repository) error {
					found, err := r.FindSnapshot(t.Context(), repo.Latest, repo.Filter{})
					if err != nil {
						return err
					}
					return browse.DumpAs(t.Context(), r.LoadBlob, found.Snapshot.Tree, one, browse.Archive{}, &got)
				})
			})
			require.Equal(t, want, got.Bytes())
			t.Log(files, n, m)
			require.LessOrEqual(t, max(n, m), 10)
		})
	}
}
