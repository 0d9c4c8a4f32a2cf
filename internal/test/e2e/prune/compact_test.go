package prune

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// manySegments makes a snapshot of files in at least so many index segments of a pack each.
func manySegments(t *testing.T, n int) *kit.Pruned {
	t.Helper()
	p := kit.NewPruned(t, mem.New())
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("%03d/%d", i/100, i)] = string(testkit.Noise(uint64(i)+1, 2500))
	}
	kit.Written(t, p.Src, files)
	kit.Settle()
	job := p.SmallJob()
	job.Session.Tuning.DataPack, job.Session.Tuning.Frame, job.Session.Tuning.Segment = 2<<10, 2<<10, 1
	out, _, err := p.Backup(job)
	require.NoError(t, err)
	p.Keep(out.ID)
	require.GreaterOrEqual(t, kit.Count(t, p.Store, store.Index), n)
	return p
}

// only prunes without repacking.
func only() prune.Options { return prune.Options{MaxUnused: prune.Limit{None: true}} }

// TestPruneMergesSmallSegments: a prune that has nothing to remove merges the small segments of all machines into few,
// and the next one leaves them as they are. What they name is the same.
func TestPruneMergesSmallSegments(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := manySegments(t, 3000)
	packs, index := kit.Count(t, p.Store, store.Pack), kit.BytesOf(t, p.Store, store.Index)
	res, err := p.Prune(only())
	require.NoError(t, err)
	require.Equal(t, 1, kit.Count(t, p.Store, store.Index))
	require.Equal(t, packs, kit.Count(t, p.Store, store.Pack))
	require.Equal(t, index-kit.BytesOf(t, p.Store, store.Index), res.Index)
	res, err = p.Prune(only())
	require.NoError(t, err)
	require.Zero(t, res.Index, "nothing is left to do")
	out, ledger, err := p.Backup(p.SmallJob())
	require.NoError(t, err)
	require.Zero(t, ledger.Files.New+ledger.Files.Changed)
	p.Keep(out.ID)
	p.RequireWhole("after segments were merged")
}

// TestEveryOperationOfAMergeFails cuts a prune that merges segments off at each of its operations on index segments, as
// a crash does, and lets single ones fail. All snapshots restore, and the next prune finishes the work.
func TestEveryOperationOfAMergeFails(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := manySegments(t, 100)
	for _, plan := range []faultstore.Plan{
		{Sticky: true, Ops: faultstore.Put | faultstore.List | faultstore.Delete},
		{Sticky: true, Ops: faultstore.Get, Kind: store.Index},
		{Ops: faultstore.Put | faultstore.List | faultstore.Delete},
		{Ops: faultstore.Put | faultstore.Delete, Effect: faultstore.Unsure},
		{Ops: faultstore.Put, Kind: store.Index, Effect: faultstore.Torn},
	} {
		plan.At = 1
		for ; mergeFails(t, base, plan); plan.At += testkit.Rounds(60, 21, 5) {
		}
		require.Greater(t, plan.At, 1)
	}
}

// mergeFails prunes with a fault and again without one, and reports whether the fault was met.
func mergeFails(t *testing.T, base *kit.Pruned, plan faultstore.Plan) bool {
	t.Helper()
	p := base.Copied(t)
	inner := p.Store
	faulty := faultstore.Wrap(inner, plan)
	p.Store = faulty
	_, err := p.Prune(only())
	p.Store = inner
	what := fmt.Sprintf("%+v, prune says: %v", plan, err)
	p.EndLeases()
	p.RequireRestorable(what, true)
	if plan.Effect != faultstore.Torn { // that leaves half a segment, which a check reports
		p.RequireSound()
	}
	_, err = p.Prune(only())
	if plan.Effect == faultstore.Torn && err != nil {
		require.ErrorIs(t, err, prune.ErrDamaged, what) // a backup writes the segment again
		out, _, err := p.Backup(p.SmallJob())
		require.NoError(t, err, what)
		p.Keep(out.ID)
		_, err = p.Prune(only())
		require.NoError(t, err, what)
	} else {
		require.NoError(t, err, what)
	}
	require.LessOrEqual(t, kit.Count(t, inner, store.Index), 2, what)
	p.RequireWhole("after the second prune; " + what)
	return faulty.Fired()
}

// TestAMergeLeavesARunningBackupAlone: a backup requires at its end that the segments that it has stored are still
// there. So no segments are merged beside it, wherever the prune runs meanwhile; the next prune merges them.
func TestAMergeLeavesARunningBackupAlone(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := manySegments(t, 100)
	require.NoError(t, os.WriteFile(filepath.Join(p.Src, "more"), testkit.Noise(77, 300_000), 0o644))
	kit.Settle()
	segments := 0
	besideSnapshot(p, func(inner store.Store) {
		segments = kit.Count(t, inner, store.Index)
		_, err := p.Elsewhere(inner).Prune(only())
		require.NoError(t, err)
		require.Equal(t, segments, kit.Count(t, inner, store.Index))
	})
	require.Greater(t, segments, 101)
	_, err := p.Prune(only())
	require.NoError(t, err)
	require.Less(t, kit.Count(t, p.Store, store.Index), 4)
	p.RequireWhole("after the backup")
}

// TestBackupBetweenAnyTwoStepsOfAMerge: a backup of another machine runs before each step of a prune that merges
// segments, and a reader that began before finds everything.
func TestBackupBetweenAnyTwoStepsOfAMerge(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := manySegments(t, 100)
	for n := 1; ; n += testkit.Rounds(40, 17, 5) {
		p := base.Copied(t)
		inner := p.Store
		st, count := at(inner, n, func() {
			out, _, err := p.Elsewhere(inner).Backup(p.SmallJob())
			if err != nil {
				t.Errorf("backup before step %d: %v", n, err)
				return
			}
			p.Keep(out.ID)
		})
		p.Store = st
		_, err := p.Prune(only())
		p.Store = inner
		require.NoError(t, err)
		require.False(t, t.Failed())
		p.RequireWhole(fmt.Sprintf("backup before step %d of %d", n, *count))
		if n > *count {
			return
		}
	}
}

// TestAMergeNeedsAPresentSurvey: a backup that ends between the survey and the merge may have stored blobs again, so
// nothing is merged this time.
func TestAMergeNeedsAPresentSurvey(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := manySegments(t, 100)
	inner, lists := p.Store, 0
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		if op != "list" || name.Kind != store.Index {
			return
		}
		if lists++; lists == 3 { // after those of the session and of the survey
			p.Elsewhere(inner).Snapshot(5)
		}
	}}
	_, err := p.Prune(only())
	p.Store = inner
	require.NoError(t, err)
	require.Equal(t, 3, lists)
	require.Greater(t, kit.Count(t, p.Store, store.Index), 100)
	_, err = p.Prune(only())
	require.NoError(t, err)
	require.Less(t, kit.Count(t, p.Store, store.Index), 4)
	p.RequireWhole("after the second prune")
}
