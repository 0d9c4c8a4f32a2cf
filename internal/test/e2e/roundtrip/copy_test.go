package roundtrip

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/copy"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// likeEngine makes a repository in memory with the master key of another.
func likeEngine(e *kit.Engine) *kit.Engine {
	e.T.Helper()
	to := &kit.Engine{T: e.T, Store: mem.New(), Parallel: e.Parallel, Open: kit.OpenOptions(testkit.RamDir(e.T))}
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
		made, _, err := repo.Init(context.Background(), to.Store, repo.InitOptions{
			Secrets: []repo.Secret{kit.Passphrase()}, Params: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}, Label: "test",
			Chunks: chunker.Average(1 << 20), Open: to.Open, Like: r,
		})
		if err != nil {
			return err
		}
		require.Equal(e.T, r.Config().Chunker, made.Config().Chunker)
		return made.Close()
	}))
	return to
}

// smallPacks has a run store in small pieces.
func smallPacks() repo.SessionOptions {
	o := repo.SessionOptions{Uploads: 1}
	o.Tuning.DataPack, o.Tuning.TreePack, o.Tuning.Segment, o.Tuning.Frame = 128<<10, 32<<10, 2, 32<<10
	return o
}

// copyTo copies all snapshots, and reports what became of each.
func copyTo(e *kit.Engine, to *kit.Engine, session repo.SessionOptions) (*copy.Result, []copy.Snapshot, error) {
	e.T.Helper()
	return copyWith(e, to, copy.Options{SessionOptions: session})
}

// copyWith copies all snapshots that the options do not leave out, and reports what became of each.
func copyWith(e *kit.Engine, to *kit.Engine, opt copy.Options) (res *copy.Result, each []copy.Snapshot, err error) {
	e.T.Helper()
	err = e.With(func(from *repo.Repository) error {
		return to.With(func(dst *repo.Repository) error {
			listed, err := from.Snapshots(context.Background())
			require.NoError(e.T, err)
			opt.Snapshots, opt.Scratch, opt.Ledger = listed, e.T.TempDir(), report.NewJob(report.Copy, time.Now)
			opt.Each = func(s copy.Snapshot) { each = append(each, s) }
			res, err = copy.Run(context.Background(), from, dst, opt)
			return err
		})
	})
	return res, each, err
}

// countedGets counts the bytes of packs that are read.
type countedGets struct {
	store.Store
	packs atomic.Uint64
}

func (c *countedGets) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Pack {
		c.packs.Add(uint64(len(p)))
	}
	return c.Store.Get(ctx, name, off, p)
}

// history makes three snapshots of a tree with small files, a file of many chunks that grows, hard links, holes and
// folders.
func history(e *kit.Engine, src string) {
	e.T.Helper()
	big := testkit.Noise(5, copiedFile())
	for i := range 3 {
		kit.Churn(e.T, src, i)
		kit.Written(e.T, src, map[string]string{
			"still/one": "one", "still/deep/two": strings.Repeat("two", 9999), fmt.Sprint("new/", i): fmt.Sprint(i),
			"big": string(big[:(i+10)<<copiedShift()]),
		})
		if i == 0 {
			require.NoError(e.T, os.Link(filepath.Join(src, "still/one"), filepath.Join(src, "new/link")))
			require.NoError(e.T, os.Symlink("nowhere", filepath.Join(src, "new/symlink")))
			f, err := os.Create(filepath.Join(src, "hole"))
			require.NoError(e.T, err)
			require.NoError(e.T, f.Truncate(8<<20))
			_, err = f.WriteAt([]byte("end"), 8<<20-3)
			require.NoError(e.T, err)
			require.NoError(e.T, f.Close())
		}
		kit.Settle()
		_, _, err := e.Backup(e.Job(src))
		require.NoError(e.T, err)
	}
}

// TestCopy: snapshots that were copied hold what the originals hold, whether the keys of the repositories agree or not.
// The second of similar snapshots costs what differs, and a second run copies nothing.
// copiedFile is the size of the large file of a history.
func copiedFile() int { return 12 << copiedShift() }

func copiedShift() int { return testkit.Rounds(20, 20, 22) }

func TestCopy(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := testkit.RamDir(t)
	e := kit.NewEngine(t, &countedGets{Store: mem.New()})
	history(e, src)
	for name, to := range map[string]*kit.Engine{"one key": likeEngine(e), "two keys": kit.NewEngine(t, nil)} {
		t.Run(name, func(t *testing.T) {
			gets := e.Store.(*countedGets)
			before := gets.packs.Load()
			res, each, err := copyTo(e, to, repo.SessionOptions{})
			require.NoError(t, err)
			require.Equal(t, name == "one key", res.SameKey)
			require.EqualValues(t, 3, res.Copied)
			require.Less(t, gets.packs.Load()-before, uint64(copiedFile()+14<<20),
				"the large file is read about once for three snapshots")
			require.Len(t, each, 3)
			to.RequireSound()
			requireCopied(e, to, each)
			to.RequireRestored(src)

			again, each, err := copyTo(e, to, repo.SessionOptions{})
			require.NoError(t, err)
			require.EqualValues(t, 3, again.There)
			require.Zero(t, again.Copied+again.Blobs+again.Trees)
			require.True(t, each[0].There)

			// A copy of the copy is known to be one of the original, in both directions.
			back, _, err := copyTo(to, e, repo.SessionOptions{})
			require.NoError(t, err)
			require.EqualValues(t, 3, back.There)
		})
	}
}

// requireCopied compares each copy with its original, object by object, but for IDs.
func requireCopied(e *kit.Engine, to *kit.Engine, each []copy.Snapshot) {
	e.T.Helper()
	for _, s := range each {
		var sub string
		var root format.ID
		require.NoError(e.T, to.With(func(r *repo.Repository) error {
			found, err := r.FindSnapshot(context.Background(), s.Copy.String(), repo.Filter{})
			require.NoError(e.T, err)
			require.Equal(e.T, s.Source.ID, found.Snapshot.Original)
			require.Equal(e.T, s.Source.Snapshot.Time, found.Snapshot.Time)
			require.Equal(e.T, s.Source.Snapshot.Stats, found.Snapshot.Stats)
			sub, root = found.Snapshot.Sources[0], found.Snapshot.Tree
			return nil
		}))
		want, got := e.Objects(s.Source.Snapshot.Tree, sub), to.Objects(root, sub)
		require.Len(e.T, got, len(want))
		for path, w := range want {
			g := got[path]
			require.Equal(e.T, w.Data, g.Data, path)
			a, b := *w.Node, *g.Node
			require.Len(e.T, b.Content.Chunks, len(a.Content.Chunks), "%s: where it was cut", path)
			for i := range a.Content.Chunks {
				require.Equal(e.T, a.Content.Chunks[i].Len, b.Content.Chunks[i].Len, path)
			}
			a.Content, a.Subtree = b.Content, b.Subtree
			require.Equal(e.T, a, b, path)
		}
	}
}

// TestCopyIsResumed: what a run stored before the destination went away is not sent again by the next.
func TestCopyIsResumed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := testkit.RamDir(t)
	e := kit.NewEngine(t, nil)
	kit.Written(t, src, map[string]string{"big": string(testkit.Noise(1, 4<<20))})
	kit.Settle()
	_, _, err := e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	for name, to := range map[string]*kit.Engine{"one key": likeEngine(e), "two keys": kit.NewEngine(t, nil)} {
		t.Run(name, func(t *testing.T) {
			inner := to.Store
			const stored = 8
			to.Store = faultstore.Wrap(inner, faultstore.Plan{At: 2 + stored, Ops: faultstore.Put, Sticky: true,
				Err: store.ErrGone})
			_, each, err := copyTo(e, to, smallPacks())
			require.ErrorIs(t, err, store.ErrGone)
			require.Empty(t, each, "trouble with the destination is no damage of the source")
			had := kit.Count(t, inner, store.Pack)
			require.Greater(t, had, 2)
			to.Store = inner
			res, _, err := copyTo(e, to, smallPacks())
			require.NoError(t, err)
			require.Less(t, res.BlobBytes, uint64(4<<20-(had-1)*(128<<10)), "what was stored is stored again")
			to.RequireSound()
			to.RequireRestored(src)
		})
	}
}

// TestCopyOfDamage: a snapshot with lost data in the source repository is not copied, and others are.
func TestCopyOfDamage(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, one := range []bool{true, false} {
		t.Run(fmt.Sprintf("one key %v", one), func(t *testing.T) {
			src, other := testkit.RamDir(t), testkit.RamDir(t)
			e := kit.NewEngine(t, nil)
			kit.Written(t, src, map[string]string{"f": string(testkit.Noise(1, 1<<20))})
			kit.Settle()
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			data := kit.EveryFile(t, e.Store)
			kit.Written(t, other, map[string]string{"f": string(testkit.Noise(2, 1<<20))})
			kit.Settle()
			_, _, err = e.Backup(e.Job(other))
			require.NoError(t, err)
			for _, name := range data {
				if name.Kind == store.Pack && len(kit.Load(t, e.Store, name)) > 1<<20 {
					require.NoError(t, e.Store.Delete(context.Background(), name))
				}
			}
			to := kit.NewEngine(t, nil)
			if one {
				to = likeEngine(e)
			}
			res, each, err := copyTo(e, to, repo.SessionOptions{})
			require.ErrorIs(t, err, copy.ErrFailed)
			require.EqualValues(t, 1, res.Failed)
			require.EqualValues(t, 1, res.Copied)
			require.Error(t, each[0].Err)
			require.NoError(t, each[1].Err)
			to.RequireSound()
			to.RequireRestored(other)
		})
	}
}

// TestCopyHealsWithoutTheEarlierCopy: the pages of an earlier copy cannot be read; the next snapshot is copied as a
// whole.
func TestCopyHealsWithoutTheEarlierCopy(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := testkit.RamDir(t)
	e, to := kit.NewEngine(t, nil), kit.NewEngine(t, nil)
	kit.Written(t, src, map[string]string{"a/f": string(testkit.Noise(1, 100<<10)), "b/g": "g"})
	kit.Settle()
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	_, _, err = copyTo(e, to, repo.SessionOptions{})
	require.NoError(t, err)
	for _, name := range kit.EveryFile(t, to.Store) {
		if name.Kind == store.Pack {
			require.NoError(t, to.Store.Delete(context.Background(), name))
		}
	}
	kit.Written(t, src, map[string]string{"b/h": "h"})
	kit.Settle()
	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	to.Open.Cache.Dir = testkit.RamDir(t)
	res, _, err := copyTo(e, to, repo.SessionOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, res.Copied)
	to.RequireRestored(src)
}

// TestCopyIntoItself is refused: the local cache of the one would be taken for that of the other.
func TestCopyIntoItself(t *testing.T) {
	e := kit.NewEngine(t, nil)
	_, _, err := copyTo(e, e, repo.SessionOptions{})
	require.ErrorIs(t, err, copy.ErrOne)
}

// TestCrashWhileCopying kills copies at random moments. After every kill the destination is sound, and the next run
// copies the rest.
func TestCrashWhileCopying(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if kit.Role() != "" {
		e, to := kit.OpenEngine(t, kit.Role()), kit.OpenEngine(t, filepath.Join(kit.Role(), "second"))
		fmt.Println(kit.Ready)
		_, _, err := copyTo(e, to, smallPacks())
		require.NoError(t, err)
		return
	}
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	for _, d := range []string{dir, filepath.Join(dir, "second")} {
		st, err := local.Create(filepath.Join(d, "repo"), nil)
		require.NoError(t, err)
		kit.NewEngine(t, st)
		require.NoError(t, os.Mkdir(filepath.Join(d, "cache"), 0o700))
	}
	e, to := kit.OpenEngine(t, dir), kit.OpenEngine(t, filepath.Join(dir, "second"))
	kills := 0
	for i := range 6 {
		kit.Churn(t, src, i)
		kit.Settle()
		_, _, err := e.Backup(e.CrashJob(src))
		require.NoError(t, err)
		if kit.Killed(t, dir, time.Duration(i*15)*time.Millisecond) {
			kills++
		}
		to.RequireSound()
	}
	require.NotZero(t, kills)
	_, _, err := copyTo(e, to, smallPacks())
	require.NoError(t, err)
	to.RequireSound()
	to.RequireRestored(src)
	res, _, err := copyTo(e, to, smallPacks())
	require.NoError(t, err)
	require.EqualValues(t, 6, res.There)
}

// TestOnlyNewSnapshotsAreCopied: what the destination has forgotten does not come back, and what a machine with a wrong
// clock stores is new all the same.
func TestOnlyNewSnapshotsAreCopied(t *testing.T) {
	src := testkit.TempDir(t)
	kit.Written(t, src, map[string]string{"file": "content"})
	e := kit.NewEngine(t, nil)
	to := likeEngine(e)
	ctx := t.Context()
	var first repo.Listed
	require.NoError(t, e.With(func(r *repo.Repository) error {
		_, _, err := e.Backup(e.Job(src))
		if err == nil {
			first, err = r.FindSnapshot(ctx, repo.Latest, repo.Filter{})
		}
		return err
	}))
	save := func(change func(s *snapshot.Snapshot)) {
		require.NoError(t, e.With(func(r *repo.Repository) error {
			return r.WithSession(ctx, repo.SessionOptions{Holder: session.Holder{Host: "host"}},
				func(ctx context.Context, session *repo.Session) error {
					s := *first.Snapshot
					change(&s)
					_, err := session.Save(ctx, &s)
					return err
				})
		}))
	}
	copied := func() uint64 {
		res, _, err := copyWith(e, to, copy.Options{New: true})
		require.NoError(t, err)
		return res.Copied
	}
	for i := range 3 {
		save(func(s *snapshot.Snapshot) { s.Time.Sec += int64(i) + 1 })
	}
	require.EqualValues(t, 4, copied(), "the first time, all")
	require.Zero(t, copied())

	require.NoError(t, to.With(func(r *repo.Repository) error { // all but the newest
		all, err := r.Snapshots(ctx)
		require.NoError(t, err)
		require.Len(t, all, 4)
		for _, s := range all {
			if s.Snapshot.Time.Sec < first.Snapshot.Time.Sec+3 {
				require.NoError(t, r.Store().Delete(ctx, object.Named(store.Snapshot, s.ID)))
			}
		}
		return nil
	}))
	require.Zero(t, copied(), "they are not new")
	save(func(s *snapshot.Snapshot) { s.Time.Sec += 60 })
	require.EqualValues(t, 1, copied(), "without those that were forgotten")

	save(func(s *snapshot.Snapshot) { s.Time.Sec -= 1 << 30 })
	require.EqualValues(t, 1, copied(), "made when the clock was wrong")
	save(func(s *snapshot.Snapshot) { s.Time.Sec += 1 << 30 })
	save(func(s *snapshot.Snapshot) { s.Time.Sec += 120 })
	require.EqualValues(t, 2, copied(), "one of the future")
	save(func(s *snapshot.Snapshot) { s.Time.Sec += 180 })
	require.EqualValues(t, 1, copied(), "and after it")

	save(func(s *snapshot.Snapshot) { s.Time.Sec -= 1 << 30; s.Host = "other" })
	save(func(s *snapshot.Snapshot) { s.Time.Sec -= 1 << 30; s.Sources = []string{"/other"} })
	require.EqualValues(t, 2, copied(), "each machine and its sources are apart")
	res, _, err := copyWith(e, to, copy.Options{})
	require.NoError(t, err)
	require.EqualValues(t, 3, res.Copied, "without New, all that is not there")
}
