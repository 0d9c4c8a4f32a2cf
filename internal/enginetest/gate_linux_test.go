package enginetest

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// guarded is an engine of which everything lies behind gates: the source, the repository, and what is kept on this
// machine.
type guarded struct {
	*engine
	client                *iopolicy.Client
	source, target, cache *iopolicy.Gate
	src                   string
}

// behindGates makes files and a repository on the disk that temporary files lie on.
func behindGates(t *testing.T, files map[string]int) *guarded {
	t.Helper()
	dir := t.TempDir()
	g := &guarded{client: iopolicy.NewClient(iopolicy.Throttle), src: filepath.Join(dir, "src")}
	for name, to := range map[string]**iopolicy.Gate{"source": &g.source, "target": &g.target, "cache": &g.cache} {
		*to = iopolicy.New(iopolicy.Config{Name: name, Medium: iopolicy.SSD, Settings: iopolicy.Default()})
	}
	for name, size := range files {
		path := filepath.Join(g.src, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		f, err := os.Create(path)
		require.NoError(t, err)
		_, err = f.Write(testkit.Noise(uint64(len(name)*1000+size), size))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)) // so that reading it is I/O
		require.NoError(t, f.Close())
	}
	st, err := local.Create(filepath.Join(dir, "repo"), g.target.Pass(g.client))
	require.NoError(t, err)
	g.engine = newEngine(t, st)
	g.open = openOptions(filepath.Join(dir, "cache"))
	g.open.FrameCacheDisk = 64 << 20
	g.open.Gate = g.to(g.cache)
	return g
}

// to is the same way wherever one asks.
func (g *guarded) to(gate *iopolicy.Gate) localfs.Gates {
	pass := gate.Pass(g.client)
	return func(*localfs.Dir, string) *iopolicy.Pass { return pass }
}

func (g *guarded) gates() []*iopolicy.Gate { return []*iopolicy.Gate{g.source, g.target, g.cache} }

func (g *guarded) job() backup.Job {
	job := g.engine.job(g.src)
	job.Source.Gate = g.to(g.source)
	return job
}

// during opens the repository with ctx for the time of fn: unlike engine.with, so that the caches are called off too.
func (g *guarded) during(ctx context.Context, fn func(r *repo.Repository) error) error {
	r, err := repo.Open(ctx, g.st, g.open)
	if err != nil {
		return err
	}
	return errors.Join(fn(r), r.Close())
}

func (g *guarded) makeBackup(ctx context.Context, job backup.Job) error {
	g.ledger = report.New(time.Now)
	return g.during(ctx, func(r *repo.Repository) error {
		_, err := backup.Make(ctx, r, job, g.ledger)
		return err
	})
}

// restoreTo restores the source of the newest snapshot into dst, which lies behind the gate of the source.
func (g *guarded) restoreTo(ctx context.Context, dst string, verify bool) error {
	g.ledger = report.NewJob(report.Restore, time.Now)
	return g.during(ctx, func(r *repo.Repository) error {
		found, err := r.FindSnapshot(ctx, repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		to := restore.Target{Path: dst, Verify: verify, Gate: g.to(g.source)}
		_, err = restore.Run(ctx, r, restore.Selection{Tree: found.Snapshot.Tree, Sub: g.src}, to, restore.Parallel{Workers: 2}, g.ledger)
		return err
	})
}

func (g *guarded) checkAll(ctx context.Context, scratch string) error {
	l := report.NewJob(report.Check, time.Now)
	return g.during(ctx, func(r *repo.Repository) error {
		found, err := check.Run(ctx, r, check.Options{ReadData: true, Scratch: scratch}, l)
		if err == nil && len(found.Problems) > 0 {
			err = found.Problems[0].Err
		}
		return err
	})
}

// blocks is what this process has read from and written to disks so far, in units of 512 bytes, and how often the system
// had to read pages of the program itself again, for want of memory.
func blocks(t *testing.T) (in, out, faults int64) {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Inblock, u.Oublock, u.Majflt
}

// With all gates shut nothing is read and nothing is written, whatever the job, and it ends when it is called off.
func TestShutGatesStopEveryJob(t *testing.T) {
	if role() == "" { // "go test" has this process keep a log of what it opens, and that is written now and then
		out, err := again(t, "without a log").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	jobs := map[string]func(g *guarded, ctx context.Context, dir string) error{
		"backup":  func(g *guarded, ctx context.Context, _ string) error { return g.makeBackup(ctx, g.job()) },
		"restore": func(g *guarded, ctx context.Context, dir string) error { return g.restoreTo(ctx, dir, true) },
		"check":   (*guarded).checkAll,
	}
	for name, run := range jobs {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := behindGates(t, map[string]int{"a": 3 << 20, "b/c": 1000, "b/d": 10})
				require.NoError(t, g.makeBackup(t.Context(), g.job()))
				scratch := filepath.Join(t.TempDir(), "new")
				for _, gate := range g.gates() {
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
		g := behindGates(t, map[string]int{"a": 3 << 20, "b/c": 1000})
		g.source.Shut()
		source, target := g.source.Stats(), g.target.Stats()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- g.makeBackup(ctx, g.job()) }()
		synctest.Wait()
		require.Empty(t, failed)
		require.Equal(t, source.Operations, g.source.Stats().Operations)
		require.Greater(t, g.target.Stats().Operations, target.Operations, "the lease, at least")
		leases := filepath.Join(g.st.Location(), "leases", "*")
		held, err := filepath.Glob(leases)
		require.NoError(t, err)
		require.Len(t, held, 1)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		held, err = filepath.Glob(leases)
		require.NoError(t, err)
		require.Empty(t, held, "it said farewell")
		require.Empty(t, g.failures(), "what was called off is no failure of an object")
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

// While nothing can be written, what is read goes on until all buffers are full, and the end comes when it is asked for.
func TestReadingGoesOnWhileTheTargetIsShut(t *testing.T) {
	files := map[string]int{}
	for i := range 40 {
		files[fmt.Sprintf("large/%02d", i)] = 2<<20 + i
		files[fmt.Sprintf("small/%02d", i)] = 100_000 + i
	}
	g := behindGates(t, files)
	g.st = &shutting{Store: g.st, gate: g.target}
	ctx, cancel := context.WithCancel(t.Context())
	job := g.job()
	job.Session.Tuning.DataPack = 1 << 20
	failed := make(chan error, 1)
	go func() { failed <- g.makeBackup(ctx, job) }()
	require.Eventually(t, func() bool { return g.source.Stats().Moved.Read > 8<<20 }, time.Minute, time.Millisecond)
	require.Empty(t, failed)
	packs, err := filepath.Glob(filepath.Join(g.st.Location(), "packs", "*", "*"))
	require.NoError(t, err)
	require.Empty(t, packs, "though nothing was written")
	cancel()
	g.target.Open()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, g.failures())
}

// counters is what this process has read and written so far by system calls, of whatever file: bytes.
func counters(t *testing.T) (read, written int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\n", &read, &written)
	require.NoError(t, err)
	return read, written
}

// What the gates were told is what this process has read and written: nothing goes past them, and nothing is told twice.
func TestGatesAreToldOfEveryByte(t *testing.T) {
	files := map[string]int{"large": 20<<20 + 5, "sub/medium": 700_000, "empty": 0}
	for i := range 200 {
		files[fmt.Sprintf("sub/%d/f%d", i%20, i)] = 100 * i
	}
	g := behindGates(t, files)
	dst := filepath.Join(t.TempDir(), "dst")
	ctx := t.Context()
	// One file after the other: what io_uring reads the kernel does not count as read by a process. Files that were made a
	// moment ago are read by the second backup too.
	unchanged := g.job()
	unchanged.Source.Reading.Singly = true
	for _, step := range []struct {
		what string
		run  func() error
	}{
		{"first backup", func() error { return g.makeBackup(ctx, readAll(g.job(), true)) }},
		{"unchanged backup", func() error { return g.makeBackup(ctx, unchanged) }},
		{"restore", func() error { return g.restoreTo(ctx, dst, true) }},
		{"check", func() error { return g.checkAll(ctx, t.TempDir()) }},
	} {
		var before, after iopolicy.Bytes
		sum := func(to *iopolicy.Bytes) {
			for _, gate := range g.gates() {
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
		toldRead, toldWritten := int64(after.Read-before.Read), int64(after.Written-before.Written)
		t.Logf("%s: read %d, told %d; written %d, told %d", step.what, ownRead, toldRead, ownWritten, toldWritten)
		// Beside the doors, a process reads what it is told of mounts and of users, and the heads of its cache file. Its
		// runtime writes 8 bytes to wake itself, and "go test" keeps a log of what is opened by name, 4 KiB at a time.
		require.InDelta(t, ownRead, toldRead, 64<<10, step.what)
		require.InDelta(t, ownWritten, toldWritten, 16<<10, step.what)
	}
	require.Empty(t, testkit.Compare(ctx, g.src, dst, testkit.CompareOptions{}))
}

// A restore that is called off while it waits leaves whole files or none, and says nothing of the others.
func TestCalledOffRestoreLeavesNoHalfFiles(t *testing.T) {
	files := map[string]int{"large": 8 << 20}
	for i := range 50 {
		files[fmt.Sprintf("d%d/f%d", i%5, i)] = 40_000 + i
	}
	g := behindGates(t, files)
	require.NoError(t, g.makeBackup(t.Context(), g.job()))
	g.client.SetPolicy(iopolicy.Standard)
	grant, err := g.source.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
	require.NoError(t, err)
	defer grant.End(0)
	dst := filepath.Join(t.TempDir(), "dst")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- g.restoreTo(ctx, dst, false) }()
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
	g.source.Shut()
	require.Empty(t, failed)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, g.failures())
	require.NoError(t, filepath.WalkDir(dst, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		require.False(t, strings.HasSuffix(path, ".part"), path)
		rel, err := filepath.Rel(dst, path)
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join(g.src, rel))
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), rel)
		return nil
	}))
}

// Behind gates that hold everything back the same snapshot comes to be as without.
func TestBackupInsideAWindow(t *testing.T) {
	files := map[string]int{"large": 1<<20 + 7, "sparse/x": 300_000}
	for i := range 20 {
		files[fmt.Sprintf("d/f%d", i)] = 20_000 * i
	}
	g := behindGates(t, files)
	g.client.SetPolicy(iopolicy.Standard)
	for _, gate := range g.gates() {
		grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
		require.NoError(t, err)
		defer grant.End(0)
	}
	job := g.job()
	job.Parallel.Memory = 1 // the least there can be
	require.NoError(t, g.makeBackup(t.Context(), job))
	require.Empty(t, g.failures())
	g.client.SetPolicy(iopolicy.Important)
	g.requireRestored(g.src)
	g.requireSound()
	require.NotZero(t, g.source.Stats().Asleep[iopolicy.Standard.Tier()])
}

// Each file system has a gate of its own, in a source as in a target, also when its directory is opened again.
func TestMountsHaveTheirOwnGates(t *testing.T) {
	testkit.RequireRoot(t)
	g := behindGates(t, map[string]int{"f": 100_000, "other/hidden": 1})
	mount(t, "tmpfs", "tmpfs", filepath.Join(g.src, "other"), 0, "size=8m")
	mount(t, "proc", "proc", filepath.Join(g.src, "proc"), 0, "")
	written(t, g.src, map[string]string{"other/deep/er/x": strings.Repeat("x", 200_000)})
	inner := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default()})
	outer, within := g.source.Pass(g.client), inner.Pass(g.client)
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
	settle()
	builder := rules.NewBuilder()
	builder.Flag(rules.Pseudo, "test")
	job := g.job()
	job.Source.Rules, job.Source.Gate = builder.Compile(), at(g.src)
	require.NoError(t, g.makeBackup(t.Context(), job))
	require.Empty(t, g.failures())
	require.EqualValues(t, 200_000, inner.Stats().Moved.Read)
	require.EqualValues(t, 100_000, g.source.Stats().Moved.Read)
	require.Equal(t, 1, asked[g.src], "each source once")
	require.Equal(t, 1, asked[filepath.Join(g.src, "other")], "each mount once")
	require.NotContains(t, asked, filepath.Join(g.src, "proc"), "what is not entered has no gate")

	dst := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dst, "other"), 0o755))
	mount(t, "tmpfs", "tmpfs", filepath.Join(dst, "other"), 0, "size=8m")
	g.ledger = report.NewJob(report.Restore, time.Now)
	require.NoError(t, g.during(t.Context(), func(r *repo.Repository) error {
		found, err := r.FindSnapshot(t.Context(), repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		_, err = restore.Run(t.Context(), r, restore.Selection{Tree: found.Snapshot.Tree, Sub: g.src},
			restore.Target{Path: dst, Verify: true, Gate: at(dst)}, restore.Parallel{Workers: 1}, g.ledger)
		return err
	}))
	require.Empty(t, g.failures())
	require.EqualValues(t, 200_000, inner.Stats().Moved.Written)
	require.EqualValues(t, 100_000, g.source.Stats().Moved.Written)
	require.EqualValues(t, 400_000, inner.Stats().Moved.Read, "it was verified")
	require.Positive(t, asked[filepath.Join(dst, "other")])
}
