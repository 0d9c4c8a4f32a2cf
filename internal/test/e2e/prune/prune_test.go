package prune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestPruneFreesSpace: the rest is about as large as a repository that never had anything else.
func TestPruneFreesSpace(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	var ids []format.ID
	for i := range uint64(6) {
		ids = append(ids, p.Snapshot(i))
	}
	before := kit.BytesOf(t, p.Store, store.Pack)
	whole := before + kit.BytesOf(t, p.Store, store.Index)
	p.Forget(ids[:5]...)
	opt := kit.SmallPrune()
	opt.DryRun = true
	forecast, err := p.Prune(opt)
	require.NoError(t, err)
	require.Equal(t, before, kit.BytesOf(t, p.Store, store.Pack), "a dry run changes nothing")
	require.Zero(t, kit.Count(t, p.Store, store.Mark))
	require.Empty(t, forecast.Waiting)
	opt.Settle = time.Hour
	lagging, err := p.Prune(opt)
	require.NoError(t, err)
	require.Equal(t, forecast, lagging, "a dry run waits for nothing")
	opt.DryRun, opt.Settle = false, prune.Unbounded
	_, err = p.Prune(opt)
	require.ErrorIs(t, err, prune.ErrLagging)
	require.Zero(t, kit.Count(t, p.Store, store.Mark))
	res, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.Equal(t, forecast.Marked, res.Marked)
	require.Equal(t, forecast.Rewritten, res.Rewritten)
	require.Equal(t, forecast.Deleted, res.Deleted)
	require.Equal(t, int(whole-kit.BytesOf(t, p.Store, store.Pack)-kit.BytesOf(t, p.Store, store.Index)), int(res.Freed))
	require.InEpsilon(t, res.Freed, forecast.Freed, 0.1)
	require.Equal(t, res.Marked, res.Deleted, "without any other writer, one run does both")
	require.NotZero(t, res.Repacked.Packs)
	require.Zero(t, res.Revived)
	require.Zero(t, kit.Count(t, p.Store, store.Mark))
	require.Zero(t, kit.Count(t, p.Store, store.Lease))
	p.RequireWhole("after the prune")

	least := kit.NewPruned(t, mem.New())
	require.NoError(t, os.CopyFS(filepath.Join(least.Dir, "same"), os.DirFS(p.Src)))
	job := least.SmallJob()
	job.Source.Root = least.Job(filepath.Join(least.Dir, "same")).Source.Root
	_, _, err = least.Backup(job)
	require.NoError(t, err)
	size, small := kit.BytesOf(t, p.Store, store.Pack), kit.BytesOf(t, least.Store, store.Pack)
	require.Less(t, size, before)
	require.Less(t, float64(size), 1.25*float64(small))

	again, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.Zero(t, again.Marked.Packs, "nothing is left to do")
	p.Snapshot(9)
	p.RequireWhole("after the next backup")
}

// TestPruneOfEverything: a repository without snapshots becomes empty, and can be used again.
func TestPruneOfEverything(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	id := p.Snapshot(1)
	p.Forget(id)
	_, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.Zero(t, kit.Count(t, p.Store, store.Pack))
	p.RequireWhole("empty")
	p.Snapshot(1)
	p.RequireWhole("used again")
}

// TestPruneRefusesDamage: with anything missing, nothing is removed.
func TestPruneRefusesDamage(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	old, _ := p.Snapshot(1), p.Snapshot(2)
	p.Forget(old)
	for _, name := range kit.EveryFile(t, p.Store) {
		if name.Kind != store.Pack && name.Kind != store.Index && name.Kind != store.Snapshot {
			continue
		}
		data := kit.Load(t, p.Store, name)
		for _, cut := range []int{-1, len(data) / 2} {
			copied := kit.CopyOf(t, p.Store)
			if cut < 0 {
				require.NoError(t, copied.Delete(context.Background(), name))
			} else {
				require.NoError(t, copied.Put(context.Background(), name, data[:cut]))
			}
			damaged := &kit.Engine{T: t, Store: copied, Parallel: p.Parallel, Open: p.Open}
			damaged.Open.Cache.Dir, damaged.Open.Cache.Temporary = "", true
			before := lostPaths(damaged)
			err := damaged.With(func(r *repo.Repository) error {
				_, err := prune.Run(context.Background(), r, kit.SmallPrune())
				return err
			})
			if err != nil && !errors.Is(err, prune.ErrDamaged) && !errors.Is(err, prune.ErrUnread) {
				require.ErrorIs(t, err, format.ErrCorrupt, "%s", name)
			}
			require.Equal(t, before, lostPaths(damaged), "a prune of a damaged repository loses nothing more: %s, cut to %d",
				name, cut)
		}
	}
}

// lostPaths are the lost paths by a check that reads everything.
func lostPaths(e *kit.Engine) string {
	e.T.Helper()
	var lines []string
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
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

// TestEveryOperationOfPruneFails fails each operation of a prune on the store, once and permanently, and in each other
// way every third. In each case all snapshots restore exactly. They do so too after the next prune, which finishes the
// work.
func TestEveryOperationOfPruneFails(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
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
	stride := testkit.Rounds(12, 10, 2)
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Forget(base.Snapshot(1), base.Snapshot(2))
	base.Snapshot(3)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			last := 0
			at := way.first + i*(stride/2)
			for ; failPrune(t, base, faultstore.Plan{At: at, Effect: way.effect, Sticky: way.sticky}); at += way.step * stride {
				last = at
			}
			require.Greater(t, last, 20)
		})
	}
}

func failPrune(t *testing.T, base *kit.Pruned, plan faultstore.Plan) bool {
	t.Helper()
	p := base.Copied(t)
	inner := p.Store
	faulty := faultstore.Wrap(inner, plan)
	p.Store = faulty
	_, err := p.Prune(kit.SmallPrune())
	p.Store = inner
	if !faulty.Fired() {
		require.NoError(t, err)
		return false
	}
	what := fmt.Sprintf("operation %d, prune says: %v", plan.At, err)
	p.EndLeases()
	if plan.Effect != faultstore.Silent && plan.Effect != faultstore.Torn { // those leave half a file under its name
		p.RequireWhole(what)
	}
	_, err = p.Prune(kit.SmallPrune())
	if plan.Effect == faultstore.Silent || plan.Effect == faultstore.Torn {
		p.RequireEverySnapshotReadable(p.Src)
		return true
	}
	require.NoError(t, err, what)
	require.Zero(t, kit.Count(t, inner, store.Mark), what)
	p.RequireWhole("after the second prune; " + what)
	return true
}
