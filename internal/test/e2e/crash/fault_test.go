package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestEveryStoreOperationFails fails each operation of a second backup once, in every way, and requires a wrapped error
// or a good snapshot, no leak, and that the first snapshot still comes back.
func TestEveryStoreOperationFails(t *testing.T) {
	testkit.Slow(t)
	testkit.NoLeaks(t)
	src := filepath.Join(testkit.RamDir(t), "src")
	testkit.Write(t, src, testkit.Random(11, 60, true))
	kit.Settle()
	effects := []faultstore.Effect{faultstore.Refuse, faultstore.Silent, faultstore.Unsure, faultstore.Torn,
		faultstore.Corrupt}
	stride := testkit.Rounds(15, 5, 1)
	for i, effect := range effects {
		t.Run(fmt.Sprintf("effect %d", effect), func(t *testing.T) {
			last := 0
			for at := 1 + i%stride; failOne(t, src, faultstore.Plan{At: at, Effect: effect}); at += stride {
				last = at
			}
			require.Greater(t, last, 5)
		})
	}
}

// failOne returns false when the plan's operation did not come.
func failOne(t *testing.T, src string, plan faultstore.Plan) bool {
	t.Helper()
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	first, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	added := filepath.Join(src, "added")
	require.NoError(t, os.WriteFile(added, testkit.Noise(uint64(plan.At), 300_000), 0o600))
	defer os.Remove(added)

	faulty := faultstore.Wrap(inner, plan)
	e.Store = faulty
	out, _, err := e.Backup(e.Job(src))
	if !faulty.Fired() {
		require.NoError(t, err)
		return false
	}
	e.Store = inner
	if err != nil {
		require.Nil(t, out)
	} else {
		e.RequireReadable(out.ID.String(), src)
	}
	e.RequireReadable(first.ID.String(), src)
	requireClean(e, plan.Effect == faultstore.Torn || plan.Effect == faultstore.Silent)
	return true
}

// requireClean requires that a structure check finds nothing, or, where the store itself broke its promise and left
// half a file behind, nothing that any snapshot needs.
func requireClean(e *kit.Engine, torn bool) {
	e.T.Helper()
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
		found, err := check.Run(context.Background(), r, check.Options{}, report.NewJob(report.Check, time.Now))
		if err == nil {
			for _, p := range found.Problems {
				require.True(e.T, torn && len(p.Snapshots) == 0, "%+v", p)
			}
		}
		return err
	}))
}

// TestFlippedByteNeverReachesAFile flips bits all over the repository, one at a time, and restores: either the result
// is exact, or the damage is reported; wrong bytes are never written.
func TestFlippedByteNeverReachesAFile(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	tree := testkit.Random(21, 25, true)
	testkit.Write(t, src, tree)
	kit.Settle()
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	for _, name := range kit.EveryFile(t, inner) {
		data := kit.Load(t, inner, name)
		step := max(1, len(data)/24)
		for i := 0; i < len(data); i += step {
			data[i] ^= 1 << (i % 8)
			require.NoError(t, inner.Put(context.Background(), name, data))
			requireExactOrReported(e, src, fmt.Sprintf("%s byte %d", name, i))
			data[i] ^= 1 << (i % 8)
		}
		require.NoError(t, inner.Put(context.Background(), name, data))
	}
	e.RequireRestored(src)
}

// TestTruncatedEmptyOrMissingFileIsReported does worse to each file.
func TestTruncatedEmptyOrMissingFileIsReported(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	testkit.Write(t, src, testkit.Random(22, 25, true))
	kit.Settle()
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	for _, name := range kit.EveryFile(t, inner) {
		data := kit.Load(t, inner, name)
		for _, n := range []int{len(data) - 1, len(data) / 2, 1, 0} {
			require.NoError(t, inner.Put(context.Background(), name, data[:n]))
			requireExactOrReported(e, src, fmt.Sprintf("%s cut to %d", name, n))
		}
		require.NoError(t, inner.Delete(context.Background(), name))
		requireExactOrReported(e, src, fmt.Sprintf("%s removed", name))
		require.NoError(t, inner.Put(context.Background(), name, data))
	}
	e.RequireRestored(src)
}

// requireExactOrReported restores with an empty cache.
func requireExactOrReported(e *kit.Engine, src, what string) {
	e.T.Helper()
	e.Open.Cache.Dir = testkit.RamDir(e.T)
	dst := filepath.Join(testkit.RamDir(e.T), "out")
	totals, err := e.Restore(src, restore.Target{Path: dst})
	if err == nil && totals.Failures == 0 {
		require.Empty(e.T, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}), what)
		return
	}
	if err != nil {
		require.NotEmpty(e.T, err.Error(), what)
	}
	if _, statErr := os.Stat(dst); errors.Is(statErr, os.ErrNotExist) {
		return
	}
	kit.RequireNothingWrong(e.T, src, dst, what)
}

// TestLostPackIsMadeUpFor removes each pack in turn. A backup that reads everything stores its contents again, and
// afterwards all snapshots are whole, the old one too.
func TestLostPackIsMadeUpFor(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.TempDir(t), "src")
	testkit.Write(t, src, testkit.Random(23, 40, true))
	kit.Settle()
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	// The source is the root of the snapshot: other processes may change the directories above it, and their attributes
	// cannot be recovered.
	job := e.Job(src)
	job.Source.Root = &scan.SourceTree{Path: src}
	job.Source.Comparing.Force = true
	first, _, err := e.Backup(job)
	require.NoError(t, err)
	packs := 0
	for _, name := range kit.EveryFile(t, inner) {
		if name.Kind != store.Pack {
			continue
		}
		packs++
		whole := kit.Load(t, inner, name)
		for _, cut := range []int{-1, len(whole) / 2} {
			if cut >= 0 {
				require.NoError(t, inner.Put(context.Background(), name, whole[:cut]))
			} else {
				require.NoError(t, inner.Delete(context.Background(), name))
			}
			next, _, err := e.Backup(job)
			require.NoError(t, err)
			e.Open.Cache.Dir = t.TempDir() // another machine finds the new places too
			e.RequireReadable(first.ID.String(), "")
			e.RequireReadable(next.ID.String(), "")
		}
	}
	require.Greater(t, packs, 1)
}
