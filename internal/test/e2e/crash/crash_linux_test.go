package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestCrashWhileBackingUp kills a process that makes one backup after the other, again and again. After every kill, the
// repository opens, is sound, all its snapshots come back, and the next backup works although the dead writer left a
// lease; at the end, the last backup finds what the killed ones had already stored.
func TestCrashWhileBackingUp(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if kit.Role() != "" {
		dir, held := strings.CutPrefix(kit.Role(), kit.Halfway)
		e := kit.OpenEngine(t, dir)
		if held {
			e.Store = &kit.OnPut{Store: e.Store, OnPack: kit.Hold}
		} else {
			fmt.Println(kit.Ready)
		}
		for i := 0; ; i++ {
			kit.Churn(t, filepath.Join(dir, "src"), int(time.Now().UnixNano())+i)
			_, _, err := e.Backup(e.CrashJob(filepath.Join(dir, "src")))
			require.NoError(t, err)
		}
	}
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	kit.Churn(t, src, 0)
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cache"), 0o700))
	e.Open.Cache.Dir = filepath.Join(dir, "cache")
	rng := rand.New(rand.NewPCG(1, 2))
	deadline := time.Now().Add(*kit.Soak)
	for i := 0; i < testkit.Rounds(5, 10, 20) || time.Now().Before(deadline); i++ {
		if i%5 == 2 {
			require.True(t, kit.Killed(t, kit.Halfway+dir, 0))
		} else {
			require.True(t, kit.Killed(t, dir, time.Duration(rng.Int64N(int64(120*time.Millisecond)))))
		}
		if i%4 == 3 {
			require.NoError(t, os.RemoveAll(e.Open.Cache.Dir)) // the cache is lost with the machine
		}
		kit.Settle()
		_, _, err := e.Backup(e.CrashJob(src))
		require.NoError(t, err, "after kill %d", i)
		require.Empty(t, e.Failures())
		e.RequireSound()
		e.RequireRestored(src)
	}
	e.RequireEverySnapshotReadable(src)
	require.NotZero(t, kit.Count(t, st, store.Lease), "a killed writer leaves its lease")
}

// TestWorkOfKilledBackupIsReused kills one long backup, and measures how much the next one reuses.
func TestWorkOfKilledBackupIsReused(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const size = 48 << 20
	if dir := kit.Role(); dir != "" {
		e := kit.OpenEngine(t, dir)
		e.Store = &kit.OnPut{Store: e.Store, OnPack: func() {}}
		stored := 0
		e.Store = &kit.OnPut{Store: e.Store, OnPack: func() {
			if stored++; stored == 200 { // more than half, and the index of nearly all of that
				kit.Hold()
			}
		}}
		job := e.CrashJob(filepath.Join(dir, "src"))
		job.Session.Uploads = 1
		_, _, err := e.Backup(job)
		require.NoError(t, err)
		return
	}
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	require.NoError(t, os.Mkdir(src, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(src, "big"), testkit.Noise(1, size), 0o644))
	kit.Settle()
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	e.Open.Cache.Dir = filepath.Join(dir, "cache")
	require.True(t, kit.Killed(t, dir, 0))
	for _, cache := range []string{"kept", "lost"} {
		if cache == "lost" {
			require.NoError(t, os.RemoveAll(e.Open.Cache.Dir))
		}
		job := e.CrashJob(src)
		job.Session.DryRun = cache == "kept"
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		require.Less(t, totals.Bytes.AfterDedup, uint64(size-150*(128<<10)),
			"with the cache %s, what was stored is stored again", cache)
	}
	e.RequireSound()
	e.RequireRestored(src)
}

// requireWholeOrUnfinished: after a kill, a file under its own name is whole. Where the next run will look at its time
// anyway, a small one may be half there, but never with the time of the whole one.
func requireWholeOrUnfinished(t *testing.T, src, out string, how restore.Overwrite) {
	t.Helper()
	err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".tidemark-") {
			return nil
		}
		rel, err := filepath.Rel(out, path)
		require.NoError(t, err)
		original, err := os.Stat(filepath.Join(src, rel))
		require.NoError(t, err)
		restored, err := os.Stat(path)
		require.NoError(t, err)
		if (how == restore.Always || how == restore.IfChanged) && !restored.ModTime().Equal(original.ModTime()) {
			return nil
		}
		want, err := os.ReadFile(filepath.Join(src, rel))
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s is not whole", rel)
		return nil
	})
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
}

// TestCrashWhileRestoring kills restores into the same target until one comes through: the result is exact, and nothing
// else is in it.
func TestCrashWhileRestoring(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for i, name := range []string{"always", "if-changed", "if-newer", "never"} {
		t.Run(name, func(t *testing.T) { crashRestore(t, restore.Overwrite(i)) })
	}
}

func crashRestore(t *testing.T, how restore.Overwrite) {
	if dir := kit.Role(); dir != "" {
		e := kit.OpenEngine(t, dir)
		fmt.Println(kit.Ready)
		_, err := e.Restore(filepath.Join(dir, "src"), restore.Target{Path: filepath.Join(dir, "out"), Overwrite: how})
		require.NoError(t, err)
		return
	}
	dir := testkit.RamDir(t)
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	testkit.Write(t, src, testkit.Random(5, 400, true))
	kit.Written(t, src, map[string]string{"big": string(testkit.Noise(3, 6<<20)),
		"one chunk": string(testkit.Noise(4, 60_000))})
	require.NoError(t, os.Link(filepath.Join(src, "big"), filepath.Join(src, "another name")))
	for i := range 1000 { // a kill falls among them more often than not
		pipe := filepath.Join(src, fmt.Sprint("pipe ", i))
		require.NoError(t, unix.Mkfifo(pipe, 0o640))
		require.NoError(t, os.Chtimes(pipe, time.Time{}, time.Unix(1<<30, 0)))
	}
	kit.Settle()
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	e.Open.Cache.Dir = filepath.Join(dir, "cache")
	_, _, err = e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, uint64(how)))
	kills := 0
	for range testkit.Rounds(1, 2, 4) {
		if kit.Killed(t, dir, time.Duration(rng.Int64N(int64(60*time.Millisecond)))) {
			kills++
		}
		requireWholeOrUnfinished(t, src, out, how)
	}
	t.Logf("%d kills", kills)
	_, err = e.Restore(src, restore.Target{Path: out, Overwrite: how, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Empty(t, testkit.Compare(context.Background(), src, out, testkit.CompareOptions{}))
}
