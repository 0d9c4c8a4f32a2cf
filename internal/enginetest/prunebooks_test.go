package enginetest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// TestPruneBooksAddUp: what was there, less what was removed, with what was written, is what is there; and that holds for
// the index too. Whether there is much to do, or nothing, or it is only asked for.
func TestPruneBooksAddUp(t *testing.T) {
	p := newPruned(t, mem.New())
	sum := func(opt prune.Options) (*prune.Result, *report.Totals) {
		opt.Ledger = report.NewJob(report.Prune, time.Now)
		packs, index := bytesOf(t, p.st, store.Pack), bytesOf(t, p.st, store.Index)
		number := count(t, p.st, store.Pack)
		res, err := p.prune(opt)
		require.NoError(t, err)
		require.EqualValues(t, packs, res.Before.Bytes)
		require.EqualValues(t, number, res.Before.Packs)
		totals := opt.Ledger.Snapshot()
		require.Equal(t, report.Done, totals.Phase)
		require.Zero(t, totals.Workers, "every clock was stopped")
		if opt.DryRun {
			require.Equal(t, packs, bytesOf(t, p.st, store.Pack))
			return res, &totals
		}
		require.EqualValues(t, bytesOf(t, p.st, store.Pack), res.Before.Bytes-res.Deleted.Bytes+res.Written.Bytes)
		require.EqualValues(t, count(t, p.st, store.Pack), res.Before.Packs-res.Deleted.Packs+res.Written.Packs)
		require.Equal(t, index-bytesOf(t, p.st, store.Index), res.Index)
		require.Equal(t, packs+index-bytesOf(t, p.st, store.Pack)-bytesOf(t, p.st, store.Index), res.Freed)
		return res, &totals
	}

	first := p.snapshot(1)
	require.NoError(t, os.WriteFile(filepath.Join(p.src, "trash"), testkit.Noise(77, 900_000), 0o644))
	second := p.snapshot(2)
	res, _ := sum(smallPrune())
	require.Zero(t, res.Freed, "there was nothing to do")

	require.NoError(t, os.Remove(filepath.Join(p.src, "trash")))
	p.snapshot(3)
	p.forget(first, second)
	opt := smallPrune()
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
	for _, phase := range []report.Phase{report.Listing, report.Following, report.Planning, report.Repacking, report.Indexing,
		report.Removing} {
		require.NotZero(t, totals.Phases[phase], phase.String())
	}

	res, _ = sum(opt)
	require.Equal(t, prune.Amount{}, res.Deleted)
	require.Zero(t, res.Freed)

	// What is marked and has to wait is told as that.
	p.snapshot(4)
	third := p.snapshot(5)
	p.forget(third)
	opt.Settle = time.Hour
	res, _ = sum(opt)
	require.Zero(t, res.Deleted)
	require.NotZero(t, res.Pending.Packs)
	require.Equal(t, res.Condemned, res.Pending)
	again, _ := sum(opt)
	require.Equal(t, res.Pending, again.Pending)
	opt.Settle = 0
	again, _ = sum(opt)
	require.Equal(t, res.Pending, again.Deleted)
	require.Zero(t, again.Pending)
	p.requireWhole("after all this")
}
