package prune

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestPruneCountersAddUp: the counters before, minus removed, plus written, equal those after. This holds for the index
// too, with much to do or nothing, and for a dry run.
func TestPruneCountersAddUp(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	sum := func(opt prune.Options) (*prune.Result, *report.Totals) {
		opt.Ledger = report.NewJob(report.Prune, time.Now)
		packs, index := kit.BytesOf(t, p.Store, store.Pack), kit.BytesOf(t, p.Store, store.Index)
		number := kit.Count(t, p.Store, store.Pack)
		res, err := p.Prune(opt)
		require.NoError(t, err)
		require.EqualValues(t, packs, res.Before.Bytes)
		require.EqualValues(t, number, res.Before.Packs)
		totals := opt.Ledger.Snapshot()
		require.Equal(t, report.Done, totals.Phase)
		require.Zero(t, totals.Workers, "every clock was stopped")
		if opt.DryRun {
			require.Equal(t, packs, kit.BytesOf(t, p.Store, store.Pack))
			return res, &totals
		}
		require.EqualValues(t, kit.BytesOf(t, p.Store, store.Pack), res.Before.Bytes-res.Deleted.Bytes+res.Written.Bytes)
		require.EqualValues(t, kit.Count(t, p.Store, store.Pack), res.Before.Packs-res.Deleted.Packs+res.Written.Packs)
		require.Equal(t, index-kit.BytesOf(t, p.Store, store.Index), res.Index)
		require.Equal(t, packs+index-kit.BytesOf(t, p.Store, store.Pack)-kit.BytesOf(t, p.Store, store.Index), res.Freed)
		return res, &totals
	}

	first := p.Snapshot(1)
	require.NoError(t, os.WriteFile(filepath.Join(p.Src, "trash"), testkit.Noise(77, 900_000), 0o644))
	second := p.Snapshot(2)
	res, _ := sum(kit.SmallPrune())
	require.Zero(t, res.Freed, "there was nothing to do")

	require.NoError(t, os.Remove(filepath.Join(p.Src, "trash")))
	p.Snapshot(3)
	p.Forget(first, second)
	opt := kit.SmallPrune()
	opt.MaxUnused, opt.DryRun = prune.Limit{Bytes: 0}, true
	plan, _ := sum(opt)
	opt.DryRun = false
	res, totals := sum(opt)
	require.NotZero(t, res.Repacked.Packs)
	require.NotZero(t, res.Written.Packs)
	require.Zero(t, res.Pending)
	require.Positive(t, res.Freed)
	require.Equal(t, plan.Deleted, res.Deleted, "as was foretold")
	require.NotZero(t, plan.Written.Bytes)
	for _, phase := range []report.Phase{report.Listing, report.Following, report.Planning, report.Repacking,
		report.Indexing,
		report.Removing} {
		require.NotZero(t, totals.Phases[phase], phase.String())
	}

	res, _ = sum(opt)
	require.Equal(t, prune.Amount{}, res.Deleted)
	require.Zero(t, res.Freed)

	// Marked packs that have to wait are reported as waiting.
	p.Snapshot(4)
	third := p.Snapshot(5)
	p.Forget(third)
	require.NoError(t, p.With(func(r *repo.Repository) error {
		return r.WithSession(t.Context(), repo.SessionOptions{}, func(context.Context, *repo.Session) error {
			res, _ = sum(opt)
			require.Zero(t, res.Deleted)
			require.NotZero(t, res.Pending.Packs)
			require.Equal(t, res.Marked, res.Pending)
			again, _ := sum(opt)
			require.Equal(t, res.Pending, again.Pending)
			return nil
		})
	}))
	again, _ := sum(opt)
	require.Equal(t, res.Pending, again.Deleted)
	require.Zero(t, again.Pending)
	p.RequireWhole("after all this")
}
