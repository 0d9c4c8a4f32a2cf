package throttle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func gates(g *kit.Guarded) []*iopolicy.Gate { return []*iopolicy.Gate{g.Source, g.Target, g.Cache} }

// restoreTo restores the source of the newest snapshot into dst, which lies behind the gate of the source.
func restoreTo(g *kit.Guarded, ctx context.Context, dst string, verify bool) error {
	g.Ledger = report.NewJob(report.Restore, time.Now)
	return g.During(ctx, func(r *repo.Repository) error {
		found, err := r.FindSnapshot(ctx, repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		to := restore.Target{Path: dst, Verify: verify, Gate: g.To(g.Source)}
		_, err = restore.Run(ctx, r, restore.Selection{Tree: found.Snapshot.Tree, Sub: g.Src}, to,
			2, g.Ledger)
		return err
	})
}

func checkAll(g *kit.Guarded, ctx context.Context, scratch string) error {
	l := report.NewJob(report.Check, time.Now)
	return g.During(ctx, func(r *repo.Repository) error {
		found, err := check.Run(ctx, r, check.Options{ReadData: true, Scratch: scratch}, l)
		if err == nil && len(found.Problems) > 0 {
			err = found.Problems[0].Err
		}
		return err
	})
}

// blocks is what this process has read from and written to disks so far, in units of 512 bytes, and how often the
// system had to read pages of the program itself again, for want of memory.
func blocks(t *testing.T) (in, out, faults int64) {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Inblock, u.Oublock, u.Majflt
}

// With all gates shut no job reads or writes anything, and each ends when it is cancelled.
func TestShutGatesStopEveryJob(t *testing.T) {
	if kit.Role() == "" { // "go test" has this process log the files that it opens, and that is written now and then
		out, err := kit.Again(t, "without a log").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	jobs := map[string]func(g *kit.Guarded, ctx context.Context, dir string) error{
		"backup":  func(g *kit.Guarded, ctx context.Context, _ string) error { return g.MakeBackup(ctx, g.Job()) },
		"restore": func(g *kit.Guarded, ctx context.Context, dir string) error { return restoreTo(g, ctx, dir, true) },
		"check":   checkAll,
	}
	for name, run := range jobs {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := kit.BehindGates(t, map[string]int{"a": 3 << 20, "b/c": 1000, "b/d": 10})
				require.NoError(t, g.MakeBackup(t.Context(), g.Job()))
				scratch := filepath.Join(t.TempDir(), "new")
				for _, gate := range gates(g) {
					gate.Shut()
				}
				ctx, cancel := context.WithCancel(t.Context())
				in, out, faults := blocks(t)
				failed := make(chan error, 1)
				go func() { failed <- run(g, ctx, scratch) }()
				synctest.Wait()
				nowIn, nowOut, nowFaults := blocks(t)
				if nowFaults == faults {
					require.Zero(t, nowIn-in)
				}
				require.Zero(t, nowOut-out)
				require.Empty(t, failed, "it waits")
				start := time.Now()
				cancel()
				require.ErrorIs(t, <-failed, context.Canceled)
				require.Zero(t, time.Since(start), "nothing else was waited for")
				require.NoDirExists(t, scratch)
			})
		})
	}
}

// A shut gate of one device keeps a job from that device, and from no other.
func TestShutSourceKeepsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := kit.BehindGates(t, map[string]int{"a": 3 << 20, "b/c": 1000})
		g.Source.Shut()
		source, target := g.Source.Stats(), g.Target.Stats()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- g.MakeBackup(ctx, g.Job()) }()
		synctest.Wait()
		require.Empty(t, failed)
		require.Equal(t, source.Operations, g.Source.Stats().Operations)
		require.Greater(t, g.Target.Stats().Operations, target.Operations, "the lease, at least")
		leases := filepath.Join(g.Store.Location(), "leases", "*")
		held, err := filepath.Glob(leases)
		require.NoError(t, err)
		require.Len(t, held, 1)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		held, err = filepath.Glob(leases)
		require.NoError(t, err)
		require.Empty(t, held, "it said farewell")
		require.Empty(t, g.Failures(), "what was called off is no failure of an object")
	})
}

// shutting shuts a gate when the first pack comes.
type shutting struct {
	store.Store
	once sync.Once
	gate *iopolicy.Gate
}

func (s *shutting) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Pack {
		s.once.Do(s.gate.Shut)
	}
	return s.Store.Put(ctx, name, data)
}

// While nothing can be written, reads continue until all buffers are full, and the job ends on request.
func TestReadingGoesOnWhileTheTargetIsShut(t *testing.T) {
	testkit.Slow(t)
	files := map[string]int{}
	for i := range 40 {
		files[fmt.Sprintf("large/%02d", i)] = 2<<20 + i
		files[fmt.Sprintf("small/%02d", i)] = 100_000 + i
	}
	g := kit.BehindGates(t, files)
	g.Store = &shutting{Store: g.Store, gate: g.Target}
	ctx, cancel := context.WithCancel(t.Context())
	job := g.Job()
	job.Session.Tuning.DataPack = 1 << 20
	failed := make(chan error, 1)
	go func() { failed <- g.MakeBackup(ctx, job) }()
	require.Eventually(t, func() bool { return g.Source.Stats().Moved.Read > 8<<20 }, time.Minute, time.Millisecond)
	require.Empty(t, failed)
	packs, err := filepath.Glob(filepath.Join(g.Store.Location(), "packs", "*", "*"))
	require.NoError(t, err)
	require.Empty(t, packs, "though nothing was written")
	cancel()
	g.Target.Open()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, g.Failures())
}

// counters returns the bytes that this process has read and written so far by system calls, of all files.
func counters(t *testing.T) (read, written int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\n", &read, &written)
	require.NoError(t, err)
	return read, written
}

// The gates receive exactly what this process has read and written: every byte passes a gate, and none is counted
// twice.
func TestGatesReceiveEveryByte(t *testing.T) {
	testkit.Slow(t)
	files := map[string]int{"large": 20<<20 + 5, "sub/medium": 700_000, "empty": 0}
	for i := range 200 {
		files[fmt.Sprintf("sub/%d/f%d", i%20, i)] = 100 * i
	}
	g := kit.BehindGates(t, files)
	dst := filepath.Join(t.TempDir(), "dst")
	ctx := t.Context()
	// One file after the other: what io_uring reads the kernel does not count as read by a process. Files that were made a
	// moment ago are read by the second backup too.
	unchanged := g.Job()
	unchanged.Source.Reading.Singly = true
	for _, step := range []struct {
		what string
		run  func() error
	}{
		{"first backup", func() error { return g.MakeBackup(ctx, kit.ReadAll(g.Job(), true)) }},
		{"unchanged backup", func() error { return g.MakeBackup(ctx, unchanged) }},
		{"restore", func() error { return restoreTo(g, ctx, dst, true) }},
		{"check", func() error { return checkAll(g, ctx, t.TempDir()) }},
	} {
		var before, after iopolicy.Bytes
		sum := func(to *iopolicy.Bytes) {
			for _, gate := range gates(g) {
				moved := gate.Stats().Moved
				to.Read, to.Written = to.Read+moved.Read, to.Written+moved.Written
			}
		}
		sum(&before)
		read, written := counters(t)
		require.NoError(t, step.run(), step.what)
		nowRead, nowWritten := counters(t)
		sum(&after)
		ownRead, ownWritten := nowRead-read, nowWritten-written
		reportedRead, reportedWritten := int64(after.Read-before.Read), int64(after.Written-before.Written)
		t.Logf("%s: read %d, reported %d; written %d, reported %d", step.what, ownRead, reportedRead, ownWritten,
			reportedWritten)
		// Outside the gates, a process reads the tables of mounts and users, and the heads of its cache file. Its runtime
		// writes 8 bytes to wake itself, and "go test" keeps a log of what is opened by name, 4 KiB at a time.
		require.InDelta(t, ownRead, reportedRead, 64<<10, step.what)
		require.InDelta(t, ownWritten, reportedWritten, 16<<10, step.what)
	}
	require.Empty(t, testkit.Compare(ctx, g.Src, dst, testkit.CompareOptions{}))
}

// A cancelled restore that was waiting leaves whole files or none, and reports nothing about the others.
func TestCalledOffRestoreLeavesNoHalfFiles(t *testing.T) {
	files := map[string]int{"large": 8 << 20}
	for i := range 50 {
		files[fmt.Sprintf("d%d/f%d", i%5, i)] = 40_000 + i
	}
	g := kit.BehindGates(t, files)
	require.NoError(t, g.MakeBackup(t.Context(), g.Job()))
	g.Client.SetPolicy(iopolicy.Standard)
	grant, err := g.Source.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
	require.NoError(t, err)
	defer grant.End(0)
	dst := filepath.Join(t.TempDir(), "dst")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- restoreTo(g, ctx, dst, false) }()
	growing := func() bool {
		found := false
		_ = filepath.WalkDir(dst, func(path string, e os.DirEntry, err error) error {
			if info, infoErr := os.Lstat(path); err == nil && infoErr == nil && info.Mode().IsRegular() && info.Size() > 0 {
				found = true
			}
			return nil
		})
		return found
	}
	require.Eventually(t, growing, time.Minute, time.Millisecond)
	g.Source.Shut()
	require.Empty(t, failed)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, g.Failures())
	require.NoError(t, filepath.WalkDir(dst, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		require.False(t, strings.HasSuffix(path, ".part"), path)
		rel, err := filepath.Rel(dst, path)
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join(g.Src, rel))
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), rel)
		return nil
	}))
}

// Behind gates that hold everything back the same snapshot comes to be as without.
func TestBackupInsideAWindow(t *testing.T) {
	testkit.Slow(t)
	files := map[string]int{"large": 1<<20 + 7, "sparse/x": 300_000}
	for i := range 20 {
		files[fmt.Sprintf("d/f%d", i)] = 20_000 * i
	}
	g := kit.BehindGates(t, files)
	g.Client.SetPolicy(iopolicy.Standard)
	for _, gate := range gates(g) {
		grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
		require.NoError(t, err)
		defer grant.End(0)
	}
	job := g.Job()
	job.Parallel.Memory = 1 // the least there can be
	require.NoError(t, g.MakeBackup(t.Context(), job))
	require.Empty(t, g.Failures())
	g.Client.SetPolicy(iopolicy.Important)
	g.RequireRestored(g.Src)
	g.RequireSound()
	require.NotZero(t, g.Source.Stats().Asleep[iopolicy.Standard.Tier()])
}

// Each file system has a gate of its own, in a source as in a target, also when its directory is opened again.
func TestMountsHaveTheirOwnGates(t *testing.T) {
	testkit.RequireRoot(t)
	g := kit.BehindGates(t, map[string]int{"f": 100_000, "other/hidden": 1})
	testkit.MountMemory(t, filepath.Join(g.Src, "other"), "8m")
	testkit.Mount(t, "proc", "proc", filepath.Join(g.Src, "proc"), 0, "")
	kit.Written(t, g.Src, map[string]string{"other/deep/er/x": strings.Repeat("x", 200_000)})
	inner := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
	outer, within := g.Source.Pass(g.Client), inner.Pass(g.Client)
	var mu sync.Mutex
	asked := map[string]int{}
	at := func(root string) localfs.Gates {
		return func(dir *localfs.Dir, path string) *iopolicy.Pass {
			mu.Lock()
			defer mu.Unlock()
			asked[path]++
			if path == filepath.Join(root, "other") {
				require.NotNil(t, dir)
				return within
			}
			return outer
		}
	}
	kit.Settle()
	builder := rules.NewBuilder()
	builder.Flag(rules.Pseudo, "test")
	job := g.Job()
	job.Source.Rules, job.Source.Gate = builder.Compile(), at(g.Src)
	require.NoError(t, g.MakeBackup(t.Context(), job))
	require.Empty(t, g.Failures())
	require.EqualValues(t, 200_000, inner.Stats().Moved.Read)
	// The probe for a page in the cache reads one byte, and finds it where the kernel still holds the file.
	require.Contains(t, []uint64{100_000, 100_001}, g.Source.Stats().Moved.Read)
	require.Equal(t, 1, asked[g.Src], "each source once")
	require.Equal(t, 1, asked[filepath.Join(g.Src, "other")], "each mount once")
	require.NotContains(t, asked, filepath.Join(g.Src, "proc"), "what is not entered has no gate")

	dst := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dst, "other"), 0o755))
	testkit.MountMemory(t, filepath.Join(dst, "other"), "8m")
	g.Ledger = report.NewJob(report.Restore, time.Now)
	require.NoError(t, g.During(t.Context(), func(r *repo.Repository) error {
		found, err := r.FindSnapshot(t.Context(), repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		_, err = restore.Run(t.Context(), r, restore.Selection{Tree: found.Snapshot.Tree, Sub: g.Src},
			restore.Target{Path: dst, Verify: true, Gate: at(dst)}, 1, g.Ledger)
		return err
	}))
	require.Empty(t, g.Failures())
	require.EqualValues(t, 200_000, inner.Stats().Moved.Written)
	require.EqualValues(t, 100_000, g.Source.Stats().Moved.Written)
	require.EqualValues(t, 400_000, inner.Stats().Moved.Read, "it was verified")
	require.Positive(t, asked[filepath.Join(dst, "other")])
}
