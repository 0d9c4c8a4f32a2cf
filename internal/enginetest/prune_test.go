package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/faultstore"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// pruned is a repository whose snapshots are known byte for byte: each is of a copy of the source that stays.
type pruned struct {
	*engine
	src string               // the path that is backed up
	dir string               // where the copies are
	as  map[format.ID]string // snapshot -> copy of what it must restore
	few bool                 // a small source, for tests that do a lot with it
}

func newPruned(t testing.TB, st store.Store) *pruned {
	t.Helper()
	dir := ramDir(t)
	p := &pruned{engine: newEngine(t, st), src: filepath.Join(dir, "src"), dir: dir, as: map[format.ID]string{}}
	require.NoError(t, os.MkdirAll(p.src, 0o755))
	return p
}

// change makes the next version of the source: some files of a few folders are new, some change, some go.
func (p *pruned) change(seed uint64) {
	p.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	files := 12
	if p.few {
		files = 4
	}
	for range files {
		path := filepath.Join(p.src, fmt.Sprintf("d%d", rng.IntN(4)), fmt.Sprintf("f%d", rng.IntN(12)))
		require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o755))
		if rng.IntN(4) == 0 {
			_ = os.Remove(path)
			continue
		}
		require.NoError(p.t, os.WriteFile(path, testkit.Noise(rng.Uint64N(40), 200+rng.IntN(40_000)), 0o644))
	}
	big := filepath.Join(p.src, "big")
	require.NoError(p.t, os.WriteFile(big, testkit.Noise(seed%3, 300_000), 0o644))
	settle()
}

// smallJob makes many small packs.
func (p *pruned) smallJob() backup.Job {
	job := p.job(p.src)
	job.Session.Tuning.DataPack, job.Session.Tuning.TreePack, job.Session.Tuning.Segment = 64<<10, 8<<10, 3
	job.Session.Tuning.Frame = 16 << 10
	return job
}

// keep notes what a snapshot of the source as it is now must restore.
func (p *pruned) keep(id format.ID) {
	p.t.Helper()
	copied, err := os.MkdirTemp(p.dir, "copy")
	require.NoError(p.t, err)
	require.NoError(p.t, os.CopyFS(copied, os.DirFS(p.src)))
	p.as[id] = copied
}

func (p *pruned) snapshot(seed uint64) format.ID {
	p.t.Helper()
	p.change(seed)
	out, _, err := p.backup(p.smallJob())
	require.NoError(p.t, err)
	p.keep(out.ID)
	return out.ID
}

// copied is the same repository once more, in memory, for a machine that has no cache of it.
func (p *pruned) copied(t *testing.T) *pruned {
	t.Helper()
	e := &engine{t: t, st: copyOf(t, p.st), par: p.par, open: p.open}
	e.open.CacheDir = t.TempDir()
	return &pruned{engine: e, src: p.src, dir: p.dir, as: maps.Clone(p.as)}
}

func copyOf(t *testing.T, st store.Store) store.Store {
	t.Helper()
	copied := mem.New()
	for _, name := range everyFile(t, st) {
		require.NoError(t, copied.Put(context.Background(), name, load(t, st, name)))
	}
	return copied
}

func (p *pruned) forget(ids ...format.ID) {
	p.t.Helper()
	for _, id := range ids {
		require.NoError(p.t, p.st.Delete(context.Background(), store.Name{Kind: store.Snapshot, ID: id.String()}))
		delete(p.as, id)
	}
}

func smallPrune() prune.Options {
	opt := prune.Options{MaxUnused: prune.Limit{Percent: 5}}
	opt.Session.Tuning.DataPack, opt.Session.Tuning.TreePack, opt.Session.Tuning.Segment = 64<<10, 8<<10, 3
	opt.Session.Tuning.Frame = 16 << 10
	return opt
}

func (p *pruned) prune(opt prune.Options) (res *prune.Result, err error) {
	p.t.Helper()
	err = p.with(func(r *repo.Repository) error {
		res, err = prune.Run(context.Background(), r, opt)
		return err
	})
	return res, err
}

// requireWhole demands that a check which reads everything finds nothing, and that all snapshots come back exactly, with
// this machine's cache and with none.
func (p *pruned) requireWhole(what string) {
	p.t.Helper()
	p.requireSound()
	p.requireRestorable(what, false)
	p.requireRestorable(what, true)
}

// requireRestorable restores all snapshots, with the cache of this machine or as another machine.
func (p *pruned) requireRestorable(what string, fresh bool) {
	p.t.Helper()
	was := p.open
	defer func() { p.open = was }()
	if fresh {
		p.open.CacheDir, p.open.NoCache = "", true
	}
	require.NoError(p.t, p.with(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.NoError(p.t, err)
		require.Len(p.t, listed, len(p.as), what)
		for _, l := range listed {
			require.NoError(p.t, l.Err)
			p.requireExactly(r, l, what)
		}
		return nil
	}))
}

func (p *pruned) requireExactly(r *repo.Repository, l repo.Listed, what string) {
	p.t.Helper()
	dst, err := os.MkdirTemp(p.dir, "out")
	require.NoError(p.t, err)
	ledger := report.NewJob(report.Restore, time.Now)
	_, err = restore.Run(context.Background(), r, restore.Selection{Tree: l.Snapshot.Tree, Sub: p.src},
		restore.Target{Path: filepath.Join(dst, "x")}, restore.Parallel{Workers: 2}, ledger)
	require.NoError(p.t, err, what)
	require.Empty(p.t, ledger.Issues(), what)
	requireSameFiles(p.t, p.as[l.ID], filepath.Join(dst, "x"), what)
	require.NoError(p.t, os.RemoveAll(dst))
}

// requireSameFiles compares names and contents.
func requireSameFiles(t testing.TB, want, got, what string) {
	t.Helper()
	contents := func(root string) map[string]string {
		all := map[string]string{}
		require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, path)
			if d.IsDir() {
				all[rel] = "dir"
				return nil
			}
			data, err := os.ReadFile(path)
			all[rel] = string(data)
			return err
		}))
		return all
	}
	a, b := contents(want), contents(got)
	require.Len(t, b, len(a), what)
	for name := range a {
		require.True(t, a[name] == b[name], "%s: %s differs", what, name)
	}
}

func bytesOf(t testing.TB, st store.Store, kind store.Kind) (n int64) {
	t.Helper()
	for info, err := range st.List(context.Background(), kind) {
		require.NoError(t, err)
		n += info.Size
	}
	return n
}

// TestPruneGivesBackRoom: what is left is about as large as a repository that never had anything else.
func TestPruneGivesBackRoom(t *testing.T) {
	p := newPruned(t, mem.New())
	var ids []format.ID
	for i := range uint64(6) {
		ids = append(ids, p.snapshot(i))
	}
	before := bytesOf(t, p.st, store.Pack)
	whole := before + bytesOf(t, p.st, store.Index)
	p.forget(ids[:5]...)
	opt := smallPrune()
	opt.DryRun = true
	forecast, err := p.prune(opt)
	require.NoError(t, err)
	require.Equal(t, before, bytesOf(t, p.st, store.Pack), "a dry run changes nothing")
	require.Zero(t, count(t, p.st, store.Mark))
	require.Empty(t, forecast.Waiting)
	require.False(t, forecast.Settling)
	opt.Settle = time.Minute
	lagging, err := p.prune(opt)
	require.NoError(t, err)
	require.True(t, lagging.Settling)
	require.Zero(t, lagging.Deleted, "where listings lag, the next prune removes")
	require.Equal(t, forecast.Condemned, lagging.Condemned)
	res, err := p.prune(smallPrune())
	require.NoError(t, err)
	require.Equal(t, forecast.Condemned, res.Condemned)
	require.Equal(t, forecast.Rewritten, res.Rewritten)
	require.Equal(t, forecast.Deleted, res.Deleted)
	require.Equal(t, int(whole-bytesOf(t, p.st, store.Pack)-bytesOf(t, p.st, store.Index)), int(res.Freed))
	require.InEpsilon(t, res.Freed, forecast.Freed, 0.1)
	require.Equal(t, res.Condemned, res.Deleted, "without any other writer, one run does both")
	require.NotZero(t, res.Repacked.Packs)
	require.Zero(t, res.Pardoned)
	require.Zero(t, count(t, p.st, store.Mark))
	require.Zero(t, count(t, p.st, store.Lease))
	p.requireWhole("after the prune")

	least := newPruned(t, mem.New())
	require.NoError(t, os.CopyFS(filepath.Join(least.dir, "same"), os.DirFS(p.src)))
	job := least.smallJob()
	job.Source.Root = least.job(filepath.Join(least.dir, "same")).Source.Root
	_, _, err = least.backup(job)
	require.NoError(t, err)
	size, small := bytesOf(t, p.st, store.Pack), bytesOf(t, least.st, store.Pack)
	require.Less(t, size, before)
	require.Less(t, float64(size), 1.25*float64(small))

	again, err := p.prune(smallPrune())
	require.NoError(t, err)
	require.Zero(t, again.Condemned.Packs, "nothing is left to do")
	p.snapshot(9)
	p.requireWhole("after the next backup")
}

// TestPruneOfEverything: a repository without snapshots becomes empty, and can be used again.
func TestPruneOfEverything(t *testing.T) {
	p := newPruned(t, mem.New())
	id := p.snapshot(1)
	p.forget(id)
	_, err := p.prune(smallPrune())
	require.NoError(t, err)
	require.Zero(t, count(t, p.st, store.Pack))
	p.requireWhole("empty")
	p.snapshot(1)
	p.requireWhole("used again")
}

// TestPruneRefusesDamage: with anything missing, nothing is removed.
func TestPruneRefusesDamage(t *testing.T) {
	p := newPruned(t, mem.New())
	old, _ := p.snapshot(1), p.snapshot(2)
	p.forget(old)
	for _, name := range everyFile(t, p.st) {
		if name.Kind != store.Pack && name.Kind != store.Index && name.Kind != store.Snapshot {
			continue
		}
		data := load(t, p.st, name)
		for _, cut := range []int{-1, len(data) / 2} {
			copied := copyOf(t, p.st)
			if cut < 0 {
				require.NoError(t, copied.Delete(context.Background(), name))
			} else {
				require.NoError(t, copied.Put(context.Background(), name, data[:cut]))
			}
			damaged := &engine{t: t, st: copied, par: p.par, open: p.open}
			damaged.open.CacheDir, damaged.open.NoCache = "", true
			before := lostPaths(damaged)
			err := damaged.with(func(r *repo.Repository) error {
				_, err := prune.Run(context.Background(), r, smallPrune())
				return err
			})
			if err != nil && !errors.Is(err, prune.ErrDamaged) && !errors.Is(err, prune.ErrUnread) {
				require.ErrorIs(t, err, format.ErrCorrupt, "%s", name)
			}
			require.Equal(t, before, lostPaths(damaged), "a prune of a damaged repository loses nothing more: %s, cut to %d", name, cut)
		}
	}
}

// lostPaths is what a check that reads everything says to be lost.
func lostPaths(e *engine) string {
	e.t.Helper()
	var lines []string
	require.NoError(e.t, e.with(func(r *repo.Repository) error {
		found, err := check.Run(context.Background(), r, check.Options{ReadData: true}, report.NewJob(report.Check, time.Now))
		if err != nil {
			return err
		}
		for _, problem := range found.Problems {
			lines = append(lines, problem.Paths...)
		}
		return nil
	}))
	return strings.Join(lines, "\n")
}

// TestEveryOperationOfPruneFails fails each operation of a prune on the store, once and from then on, and in each other
// way every third. Whatever happens, all snapshots come back exactly, and so they do after the prune that follows, which
// finishes the work.
func TestEveryOperationOfPruneFails(t *testing.T) {
	ways := []struct {
		name        string
		effect      faultstore.Effect
		sticky      bool
		first, step int
	}{
		{"refused", faultstore.Refuse, false, 1, 1},
		{"refused from then on", faultstore.Refuse, true, 1, 1},
		{"done, but said to have failed", faultstore.Unsure, false, 1, 3},
		{"half done", faultstore.Torn, false, 2, 3},
		{"half done, and said to be done", faultstore.Silent, false, 3, 3},
		{"corrupt", faultstore.Corrupt, false, 1, 3},
	}
	stride := 1
	if testing.Short() { // under the race detector, for instance
		ways, stride = ways[:2], 6
	}
	base := newPruned(t, mem.New())
	base.few = true
	base.forget(base.snapshot(1), base.snapshot(2))
	base.snapshot(3)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			for at := way.first + i*(stride/2); ; at += way.step * stride {
				if !failPrune(t, base, faultstore.Plan{At: at, Effect: way.effect, Sticky: way.sticky}) {
					require.Greater(t, at, 20)
					return
				}
			}
		})
	}
}

func failPrune(t *testing.T, base *pruned, plan faultstore.Plan) bool {
	t.Helper()
	p := base.copied(t)
	inner := p.st
	faulty := faultstore.Wrap(inner, plan)
	p.st = faulty
	_, err := p.prune(smallPrune())
	p.st = inner
	if !faulty.Fired() {
		require.NoError(t, err)
		return false
	}
	what := fmt.Sprintf("operation %d, prune says: %v", plan.At, err)
	p.endLeases()
	if plan.Effect != faultstore.Silent && plan.Effect != faultstore.Torn { // those leave half a file under its name
		p.requireWhole(what)
	}
	_, err = p.prune(smallPrune())
	if plan.Effect == faultstore.Silent || plan.Effect == faultstore.Torn {
		p.requireEverySnapshotReadable(p.src)
		return true
	}
	require.NoError(t, err, what)
	require.Zero(t, count(t, inner, store.Mark), what)
	p.requireWhole("after the second prune; " + what)
	return true
}

// endLeases is what time does to the leases of those that died.
func (p *pruned) endLeases() {
	p.t.Helper()
	var names []store.Name
	for info, err := range p.st.List(context.Background(), store.Lease) {
		require.NoError(p.t, err)
		names = append(names, info.Name)
	}
	for _, name := range names {
		require.NoError(p.t, p.st.Delete(context.Background(), name))
	}
}
