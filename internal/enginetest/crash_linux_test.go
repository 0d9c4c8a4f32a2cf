package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// killed runs the test again in a role, kills it after delay, and reports whether that was before it ended by itself.
// The delay begins when the child says that it is ready.
func killed(t *testing.T, role string, delay time.Duration) bool {
	t.Helper()
	cmd := again(t, role)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	var said strings.Builder
	for line := ""; line != ready+"\n"; {
		line, err = lines.ReadString('\n')
		said.WriteString(line)
		if err != nil {
			_ = cmd.Wait() // or complaints may still be coming in
			require.NoError(t, err, "%s%s", said.String(), complaints.String())
		}
	}
	time.Sleep(delay)
	require.NoError(t, cmd.Process.Kill())
	rest, _ := io.ReadAll(lines)
	err = cmd.Wait()
	if err == nil {
		return false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled(), "the child failed before it was killed: %s%s", rest, complaints.String())
	return true
}

const ready = "ready for its end"

// hold says that this process is ready, and waits for its end.
func hold() {
	fmt.Println(ready)
	select {}
}

// halfway is a role in which the process is held in the midst of its work, however slow or quick the machine is.
const halfway = "halfway in "

// openEngine opens the repository in dir with the cache beside it.
func openEngine(t testing.TB, dir string) *engine {
	t.Helper()
	st, err := local.Open(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	return &engine{t: t, st: st, par: parallel(2, 2, 2), open: openOptions(filepath.Join(dir, "cache"))}
}

// crashJob stores in small pieces, so that there are many moments to be killed at.
func (e *engine) crashJob(src string) (job backup.Job) {
	job = e.job(src)
	job.Session.Tuning.DataPack, job.Session.Tuning.TreePack, job.Session.Tuning.Segment = 128<<10, 32<<10, 4
	job.Session.Tuning.Frame = 32 << 10
	return job
}

// churn makes the i-th generation of the source.
func churn(t testing.TB, src string, i int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(i)))
	for n := range 40 {
		path := filepath.Join(src, fmt.Sprintf("d%d", n%5), fmt.Sprintf("f%d", rng.IntN(60)))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, testkit.Noise(rng.Uint64(), 1<<rng.IntN(18)), 0o644))
	}
}

// TestCrashWhileBackingUp kills a process that makes one backup after the other, again and again. After every kill, the
// repository opens, is sound, all its snapshots come back, and the next backup works although the dead writer left a
// lease; at the end, the last backup finds what the killed ones had already stored.
func TestCrashWhileBackingUp(t *testing.T) {
	if role() != "" {
		dir, held := strings.CutPrefix(role(), halfway)
		e := openEngine(t, dir)
		if held {
			e.st = &onPut{e.st, hold}
		} else {
			fmt.Println(ready)
		}
		for i := 0; ; i++ {
			churn(t, filepath.Join(dir, "src"), int(time.Now().UnixNano())+i)
			_, _, err := e.backup(e.crashJob(filepath.Join(dir, "src")))
			require.NoError(t, err)
		}
	}
	dir := ramDir(t)
	src := filepath.Join(dir, "src")
	churn(t, src, 0)
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	e := newEngine(t, st)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cache"), 0o700))
	e.open.CacheDir = filepath.Join(dir, "cache")
	rng := rand.New(rand.NewPCG(1, 2))
	deadline := time.Now().Add(*soak)
	for i := 0; i < 20 || time.Now().Before(deadline); i++ {
		if i%5 == 2 {
			require.True(t, killed(t, halfway+dir, 0))
		} else {
			require.True(t, killed(t, dir, time.Duration(rng.Int64N(int64(120*time.Millisecond)))))
		}
		if i%4 == 3 {
			require.NoError(t, os.RemoveAll(e.open.CacheDir)) // the cache is lost with the machine
		}
		settle()
		_, _, err := e.backup(e.crashJob(src))
		require.NoError(t, err, "after kill %d", i)
		require.Empty(t, e.failures())
		e.requireSound()
		e.requireRestored(src)
	}
	e.requireEverySnapshotReadable(src)
	require.NotZero(t, count(t, st, store.Lease), "a killed writer leaves its lease")
}

// TestWorkOfKilledBackupIsReused kills one long backup, and looks at how much of it the next one need not store again.
func TestWorkOfKilledBackupIsReused(t *testing.T) {
	const size = 48 << 20
	if dir := role(); dir != "" {
		e := openEngine(t, dir)
		e.st = &onPut{e.st, func() {}}
		stored := 0
		e.st = &onPut{e.st, func() {
			if stored++; stored == 200 { // more than half, and the index of nearly all of that
				hold()
			}
		}}
		job := e.crashJob(filepath.Join(dir, "src"))
		job.Session.Uploads = 1
		_, _, err := e.backup(job)
		require.NoError(t, err)
		return
	}
	dir := ramDir(t)
	src := filepath.Join(dir, "src")
	require.NoError(t, os.Mkdir(src, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(src, "big"), testkit.Noise(1, size), 0o644))
	settle()
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	e := newEngine(t, st)
	e.open.CacheDir = filepath.Join(dir, "cache")
	require.True(t, killed(t, dir, 0))
	for _, cache := range []string{"kept", "lost"} {
		if cache == "lost" {
			require.NoError(t, os.RemoveAll(e.open.CacheDir))
		}
		job := e.crashJob(src)
		job.Session.DryRun = cache == "kept"
		_, totals, err := e.backup(job)
		require.NoError(t, err)
		require.Less(t, totals.Bytes.AfterDedup, uint64(size-150*(128<<10)), "with the cache %s, what was stored is stored again", cache)
	}
	e.requireSound()
	e.requireRestored(src)
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
	for i, name := range []string{"always", "if-changed", "if-newer", "never"} {
		t.Run(name, func(t *testing.T) { crashRestore(t, restore.Overwrite(i)) })
	}
}

func crashRestore(t *testing.T, how restore.Overwrite) {
	if dir := role(); dir != "" {
		e := openEngine(t, dir)
		fmt.Println(ready)
		_, err := e.restore(filepath.Join(dir, "src"), restore.Target{Path: filepath.Join(dir, "out"), Overwrite: how})
		require.NoError(t, err)
		return
	}
	dir := ramDir(t)
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	testkit.Write(t, src, testkit.Random(5, 400, true))
	written(t, src, map[string]string{"big": string(testkit.Noise(3, 6<<20)), "one chunk": string(testkit.Noise(4, 60_000))})
	require.NoError(t, os.Link(filepath.Join(src, "big"), filepath.Join(src, "another name")))
	for i := range 1000 { // a kill falls among them more often than not
		pipe := filepath.Join(src, fmt.Sprint("pipe ", i))
		require.NoError(t, unix.Mkfifo(pipe, 0o640))
		require.NoError(t, os.Chtimes(pipe, time.Time{}, time.Unix(1<<30, 0)))
	}
	settle()
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	e := newEngine(t, st)
	e.open.CacheDir = filepath.Join(dir, "cache")
	_, _, err = e.backup(e.crashJob(src))
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, uint64(how)))
	kills := 0
	for i := 0; i < 4; i++ {
		if killed(t, dir, time.Duration(rng.Int64N(int64(60*time.Millisecond)))) {
			kills++
		}
		requireWholeOrUnfinished(t, src, out, how)
	}
	t.Logf("%d kills", kills)
	_, err = e.restore(src, restore.Target{Path: out, Overwrite: how, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.failures())
	require.Empty(t, testkit.Compare(context.Background(), src, out, testkit.CompareOptions{}))
}
