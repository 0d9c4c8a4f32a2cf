package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/faultstore"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// TestEveryStoreOperationFails fails each operation of a second backup once, in every way, and demands a wrapped error
// or a good snapshot, no leak, and that the first snapshot still comes back.
func TestEveryStoreOperationFails(t *testing.T) {
	testkit.NoLeaks(t)
	src := filepath.Join(ramDir(t), "src")
	testkit.Write(t, src, testkit.Random(11, 60, true))
	settle()
	effects := []faultstore.Effect{faultstore.Refuse, faultstore.Silent, faultstore.Unsure, faultstore.Torn, faultstore.Corrupt}
	if testing.Short() {
		effects = effects[:2]
	}
	for _, effect := range effects {
		t.Run(fmt.Sprintf("effect %d", effect), func(t *testing.T) {
			for at := 1; ; at++ {
				if !failOne(t, src, faultstore.Plan{At: at, Effect: effect}) {
					require.Greater(t, at, 5)
					return
				}
			}
		})
	}
}

// failOne returns false when the plan's operation did not come.
func failOne(t *testing.T, src string, plan faultstore.Plan) bool {
	t.Helper()
	inner := mem.New()
	e := newEngine(t, inner)
	first, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	added := filepath.Join(src, "added")
	require.NoError(t, os.WriteFile(added, testkit.Noise(uint64(plan.At), 300_000), 0o600))
	defer os.Remove(added)

	faulty := faultstore.Wrap(inner, plan)
	e.st = faulty
	out, _, err := e.backup(e.job(src))
	if !faulty.Fired() {
		require.NoError(t, err)
		return false
	}
	e.st = inner
	if err != nil {
		require.Nil(t, out)
	} else {
		e.requireReadable(out.ID.String(), src)
	}
	e.requireReadable(first.ID.String(), src)
	e.requireClean(plan.Effect == faultstore.Torn || plan.Effect == faultstore.Silent)
	return true
}

// requireClean demands that a structure check finds nothing, or, where the store itself broke its promise and left half
// a file behind, nothing that any snapshot needs.
func (e *engine) requireClean(torn bool) {
	e.t.Helper()
	require.NoError(e.t, e.with(func(r *repo.Repository) error {
		found, err := check.Run(context.Background(), r, check.Options{}, report.NewJob(report.Check, time.Now))
		if err == nil {
			for _, p := range found.Problems {
				require.True(e.t, torn && len(p.Snapshots) == 0, "%+v", p)
			}
		}
		return err
	}))
}

// requireReadable restores a whole snapshot and demands that nothing is missing in it.
func (e *engine) requireReadable(ref, dir string) {
	e.t.Helper()
	l := report.NewJob(report.Restore, time.Now)
	err := e.with(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(context.Background(), ref, repo.Filter{})
		if err != nil {
			return err
		}
		dst := filepath.Join(ramDir(e.t), "out")
		_, err = restore.Run(context.Background(), r, restore.Selection{Tree: found.Snapshot.Tree, Sub: dir},
			restore.Target{Path: dst}, restore.Parallel{Workers: 2}, l)
		return err
	})
	require.NoError(e.t, err)
	require.Empty(e.t, l.Issues())
}

// TestFlippedByteNeverReachesAFile flips bits all over the repository, one at a time, and restores: either the result
// is exact, or the damage is reported; wrong bytes are never written.
func TestFlippedByteNeverReachesAFile(t *testing.T) {
	src := filepath.Join(ramDir(t), "src")
	tree := testkit.Random(21, 25, true)
	testkit.Write(t, src, tree)
	settle()
	inner := mem.New()
	e := newEngine(t, inner)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	for _, name := range everyFile(t, inner) {
		data := load(t, inner, name)
		step := max(1, len(data)/24)
		for i := 0; i < len(data); i += step {
			data[i] ^= 1 << (i % 8)
			require.NoError(t, inner.Put(context.Background(), name, data))
			e.requireExactOrTold(src, fmt.Sprintf("%s byte %d", name, i))
			data[i] ^= 1 << (i % 8)
		}
		require.NoError(t, inner.Put(context.Background(), name, data))
	}
	e.requireRestored(src)
}

// TestTruncatedEmptyOrMissingFileIsTold does worse to each file.
func TestTruncatedEmptyOrMissingFileIsTold(t *testing.T) {
	src := filepath.Join(ramDir(t), "src")
	testkit.Write(t, src, testkit.Random(22, 25, true))
	settle()
	inner := mem.New()
	e := newEngine(t, inner)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	for _, name := range everyFile(t, inner) {
		data := load(t, inner, name)
		for _, n := range []int{len(data) - 1, len(data) / 2, 1, 0} {
			require.NoError(t, inner.Put(context.Background(), name, data[:n]))
			e.requireExactOrTold(src, fmt.Sprintf("%s cut to %d", name, n))
		}
		require.NoError(t, inner.Delete(context.Background(), name))
		e.requireExactOrTold(src, fmt.Sprintf("%s removed", name))
		require.NoError(t, inner.Put(context.Background(), name, data))
	}
	e.requireRestored(src)
}

// requireExactOrTold restores with an empty cache.
func (e *engine) requireExactOrTold(src, what string) {
	e.t.Helper()
	e.open.CacheDir = ramDir(e.t)
	dst := filepath.Join(ramDir(e.t), "out")
	totals, err := e.restore(src, restore.Target{Path: dst})
	if err == nil && totals.Failures == 0 {
		require.Empty(e.t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}), what)
		return
	}
	if err != nil {
		require.NotEmpty(e.t, err.Error(), what)
	}
	if _, statErr := os.Stat(dst); errors.Is(statErr, os.ErrNotExist) {
		return
	}
	requireNothingWrong(e.t, src, dst, what)
}

// requireNothingWrong: every regular file that exists has exactly the content of the original.
func requireNothingWrong(t testing.TB, src, dst, what string) {
	t.Helper()
	err := filepath.WalkDir(dst, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		rel, _ := filepath.Rel(dst, path)
		want, err := os.ReadFile(filepath.Join(src, rel))
		require.NoError(t, err, what)
		got, err := os.ReadFile(path)
		require.NoError(t, err, what)
		require.True(t, string(want) == string(got), "%s: %s has wrong bytes", what, rel)
		return nil
	})
	require.NoError(t, err)
}

func everyFile(t testing.TB, st store.Store) []store.Name {
	t.Helper()
	var names []store.Name
	for _, kind := range []store.Kind{store.Config, store.Key, store.Pack, store.Index, store.Snapshot} {
		for info, err := range st.List(context.Background(), kind) {
			require.NoError(t, err)
			names = append(names, info.Name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

func load(t testing.TB, st store.Store, name store.Name) []byte {
	t.Helper()
	info, err := st.Stat(context.Background(), name)
	require.NoError(t, err)
	data := make([]byte, info.Size)
	require.NoError(t, st.Get(context.Background(), name, 0, data))
	return data
}

// TestLostPackIsMadeUpFor removes each pack in turn: a backup that reads everything again stores what was in it, and
// afterwards all snapshots are whole, the old one too.
func TestLostPackIsMadeUpFor(t *testing.T) {
	src := filepath.Join(testkit.TempDir(t), "src")
	testkit.Write(t, src, testkit.Random(23, 40, true))
	settle()
	inner := mem.New()
	e := newEngine(t, inner)
	// The source is the root of the snapshot: what lies above it belongs to everybody, and cannot be made up for.
	job := e.job(src)
	job.Source.Root = &scan.Pick{Path: src}
	job.Source.Comparing.Force = true
	first, _, err := e.backup(job)
	require.NoError(t, err)
	packs := 0
	for _, name := range everyFile(t, inner) {
		if name.Kind != store.Pack {
			continue
		}
		packs++
		whole := load(t, inner, name)
		for _, cut := range []int{-1, len(whole) / 2} {
			if cut >= 0 {
				require.NoError(t, inner.Put(context.Background(), name, whole[:cut]))
			} else {
				require.NoError(t, inner.Delete(context.Background(), name))
			}
			next, _, err := e.backup(job)
			require.NoError(t, err)
			e.open.CacheDir = t.TempDir() // another machine finds the new places too
			e.requireReadable(first.ID.String(), "")
			e.requireReadable(next.ID.String(), "")
		}
	}
	require.Greater(t, packs, 1)
}
