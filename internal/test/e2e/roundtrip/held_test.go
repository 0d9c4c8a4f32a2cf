package roundtrip

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// written writes n files of a source.
func written(t *testing.T, source string, n, size int) {
	t.Helper()
	for i := range n {
		path := filepath.Join(source, fmt.Sprint("d", i%7), fmt.Sprint("f", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o644))
	}
}

// TestSourcesThatLoseObjects: a source that is missing, empty or much smaller makes a backup incomplete and is expected
// as it was, until it is there again or the user accepts the change.
func TestSourcesThatLoseObjects(t *testing.T) {
	dir := testkit.RamDir(t)
	photos, docs := filepath.Join(dir, "photos"), filepath.Join(dir, "docs")
	written(t, photos, 40, 10)
	written(t, docs, 3, 10)
	e := kit.NewEngine(t, nil)
	run := func(change func(*backup.Job)) *backup.Outcome {
		t.Helper()
		job := e.JobOf(photos, docs)
		if change != nil {
			change(&job)
		}
		out, _, err := e.Backup(job)
		require.NoError(t, err)
		require.Equal(t, []string{photos, docs}, out.Snapshot.Sources)
		require.Equal(t, snapshot.Whole, out.Sources[1].State)
		return out
	}
	lost := func(out *backup.Outcome, state snapshot.State, words string) {
		t.Helper()
		f := &out.Sources[0]
		require.Equal(t, state, f.State, f.Message)
		require.True(t, out.Failed)
		require.Contains(t, f.Message, words)
		require.Contains(t, f.Message, "it had 40 files (400 B) in snapshot ")
		require.Equal(t, snapshot.Count{Files: 40, Bytes: 400}, f.Expected)
		require.Equal(t, f.Held, out.Snapshot.Held[0])
		require.NotEmpty(t, forget.Doubt(out.Snapshot))
		require.Positive(t, out.Snapshot.Stats.Objects.Failed)
	}
	whole := func(out *backup.Outcome, files uint64) {
		t.Helper()
		require.Equal(t, snapshot.Held{Count: snapshot.Count{Files: files, Bytes: 10 * files}}, out.Snapshot.Held[0])
		require.False(t, out.Failed)
		require.Empty(t, forget.Doubt(out.Snapshot))
	}
	kit.Settle()
	whole(run(nil), 40)
	away := filepath.Join(dir, "away")
	require.NoError(t, os.Rename(photos, away))
	lost(run(nil), snapshot.Missing, "no such file or directory")
	lost(run(func(job *backup.Job) { job.Source.Shrink.Accept = true }), snapshot.Missing, "no such file or directory")
	require.NoError(t, os.MkdirAll(filepath.Join(photos, "empty", "folders"), 0o755))
	lost(run(nil), snapshot.Empty, "the folder is empty")
	lost(run(nil), snapshot.Empty, "the folder is empty")
	lost(run(func(job *backup.Job) {
		job.Source.Absent = map[string]error{photos: errors.New("it is not mounted")}
	}), snapshot.Missing, "it is not mounted")
	require.NoError(t, os.RemoveAll(photos))
	require.NoError(t, os.Rename(away, photos))
	whole(run(func(job *backup.Job) { job.NoDirCache = true }), 40)
	require.Zero(t, e.Ledger.Snapshot().Bytes.Read, "a snapshot without the source is not compared with")

	for i := range 21 {
		require.NoError(t, os.Remove(filepath.Join(photos, fmt.Sprint("d", i%7), fmt.Sprint("f", i))))
	}
	lost(run(nil), snapshot.Shrunk, "it has 19 files (190 B)")
	whole(run(func(job *backup.Job) { job.Source.Shrink.Percent = 60 }), 19)
	for i := 21; i < 40; i++ {
		path := filepath.Join(photos, fmt.Sprint("d", i%7), fmt.Sprint("f", i))
		require.NoError(t, os.Truncate(path, 0))
	}
	out := run(nil)
	require.Equal(t, snapshot.Empty, out.Sources[0].State, "bytes count, too")
	out = run(func(job *backup.Job) { job.Source.Shrink.Accept = true })
	require.False(t, out.Failed)
	out = run(nil)
	require.False(t, out.Failed, "what was accepted is what is expected")
	require.NoError(t, os.RemoveAll(filepath.Join(photos, "d0")))
	require.NoError(t, os.RemoveAll(filepath.Join(photos, "d1")))
	require.NoError(t, os.RemoveAll(filepath.Join(photos, "d2")))
	require.NoError(t, os.RemoveAll(filepath.Join(photos, "d3")))
	other := func(job *backup.Job) { job.Label.Rules = []string{"exclude *.o"} }
	for range 2 {
		out = run(other)
		require.True(t, out.Failed, "a change of the rules is no excuse")
		require.Regexp(t, "in snapshot .*; the rules changed, too. If .*--expect-shrink", out.Sources[0].Message)
	}
	out = run(func(job *backup.Job) { other(job); job.Source.Shrink.Accept = true })
	require.False(t, out.Failed)
	require.False(t, run(other).Failed)
	require.True(t, run(nil).Failed, "by these rules it should have more")
}

// TestFewFilesThatLoseAll: a source of one to nine files is in doubt if nothing is left, or most of its bytes are lost.
func TestFewFilesThatLoseAll(t *testing.T) {
	testkit.Slow(t)
	for _, files := range []int{1, 9} {
		dir := testkit.RamDir(t)
		written(t, dir, files, 500)
		e := kit.NewEngine(t, nil)
		state := func(accept bool) snapshot.State {
			t.Helper()
			job := e.JobOf(dir)
			job.Source.Shrink.Accept = accept
			out, _, err := e.Backup(job)
			require.NoError(t, err)
			require.Equal(t, out.Failed, out.Sources[0].State != snapshot.Whole)
			return out.Sources[0].State
		}
		require.Equal(t, snapshot.Whole, state(false))
		written(t, dir, files, 1)
		require.Equal(t, snapshot.Whole, state(false), "little is lost")
		written(t, dir, files, 0)
		require.Equal(t, snapshot.Empty, state(false))
		require.Equal(t, snapshot.Empty, state(false))
		written(t, dir, files, 200_000)
		require.Equal(t, snapshot.Whole, state(false))
		written(t, dir, files, 100_000)
		require.Equal(t, snapshot.Whole, state(false), "half is left")
		written(t, dir, files, 99_000)
		require.Equal(t, snapshot.Whole, state(false), "hardly less is left than before")
		written(t, dir, files, 10)
		require.Equal(t, snapshot.Shrunk, state(false))
		require.Equal(t, snapshot.Whole, state(true))
		require.Equal(t, snapshot.Whole, state(false))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "d0")))
		if files > 1 {
			require.Equal(t, snapshot.Whole, state(false))
		}
	}
}

// TestExcludedSource: a rule that leaves nothing of a source is accepted like any loss.
func TestExcludedSource(t *testing.T) {
	dir := testkit.RamDir(t)
	photos, docs := filepath.Join(dir, "photos"), filepath.Join(dir, "docs")
	written(t, photos, 3, 10)
	written(t, docs, 3, 10)
	e := kit.NewEngine(t, nil)
	run := func(accept bool, exclude ...string) string {
		t.Helper()
		job := e.JobOf(photos, docs)
		job.Source.Shrink.Accept, job.Label.Rules = accept, exclude
		b := rules.NewBuilder()
		for _, pattern := range exclude {
			require.NoError(t, b.Exclude(pattern, false, "test"))
		}
		job.Source.Rules = b.Compile()
		out, _, err := e.Backup(job)
		require.NoError(t, err)
		require.Equal(t, out.Failed, out.Sources[0].Doubted())
		return out.Sources[0].Message
	}
	require.Empty(t, run(false))
	require.Contains(t, run(false, photos), "a rule excludes it; it had 3 files")
	require.Contains(t, run(false, photos+"/d*"), "the folder is empty; it had 3 files")
	require.Empty(t, run(true, photos))
}

// TestEmptyFolderOfAJob: the first run of a job does not take an empty folder for right, even if a person did so.
func TestEmptyFolderOfAJob(t *testing.T) {
	dir := testkit.RamDir(t)
	photos, docs := filepath.Join(dir, "photos"), filepath.Join(dir, "docs")
	require.NoError(t, os.Mkdir(photos, 0o755))
	written(t, docs, 3, 10)
	e := kit.NewEngine(t, nil)
	state := func(name string, accept bool) snapshot.State {
		t.Helper()
		job := e.JobOf(photos, docs)
		job.Label.Job, job.Source.Shrink.Accept = name, accept
		out, _, err := e.Backup(job)
		require.NoError(t, err)
		require.Equal(t, out.Failed, out.Sources[0].State != snapshot.Whole)
		require.Equal(t, snapshot.Whole, out.Sources[1].State)
		return out.Sources[0].State
	}
	require.Equal(t, snapshot.Whole, state("", false))
	require.Equal(t, snapshot.Empty, state("home", false))
	require.Equal(t, snapshot.Empty, state("home", false))
	require.Equal(t, snapshot.Whole, state("home", true))
	require.Equal(t, snapshot.Whole, state("home", false))
}

// TestUnreadableSource: a source that cannot be read is no smaller one.
func TestUnreadableSource(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every folder")
	}
	dir := testkit.RamDir(t)
	photos, docs := filepath.Join(dir, "photos"), filepath.Join(dir, "docs")
	written(t, photos, 12, 10)
	written(t, docs, 3, 10)
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.JobOf(photos, docs))
	require.NoError(t, err)
	require.NoError(t, os.Chmod(photos, 0))
	defer func() { _ = os.Chmod(photos, 0o755) }()
	out, totals, err := e.Backup(e.JobOf(photos, docs))
	require.NoError(t, err)
	require.EqualValues(t, 1, totals.Failures)
	require.Equal(t, snapshot.Unreadable, out.Sources[0].State)
	require.Equal(t, snapshot.Count{Files: 12, Bytes: 120}, out.Snapshot.Held[0].Expected)
}

// TestHeldIsWhatTheSnapshotHolds counts the objects of each source in the tree, also of a source in another one, of a
// file, and of an unchanged one, and compares the record.
func TestHeldIsWhatTheSnapshotHolds(t *testing.T) {
	dir := testkit.RamDir(t)
	all, inner, file := filepath.Join(dir, "all"), filepath.Join(dir, "all", "d1"), filepath.Join(dir, "file")
	written(t, all, 50, 1000)
	require.NoError(t, os.Symlink("f1", filepath.Join(inner, "link")))
	require.NoError(t, os.WriteFile(file, []byte("123456789"), 0o644))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	changes := []func(){
		func() {},
		func() {},
		func() { written(t, filepath.Join(inner, "more"), 20, 5000) },
		func() { require.NoError(t, os.RemoveAll(filepath.Join(all, "d2"))) },
		func() {
			require.NoError(t, os.WriteFile(filepath.Join(all, "d3", "f3"), []byte("longer or shorter"), 0o644))
		},
		func() { require.NoError(t, os.Remove(filepath.Join(inner, "link"))) },
	}
	for i, change := range changes {
		change()
		out, totals, err := e.Backup(e.JobOf(all, inner, file))
		require.NoError(t, err)
		require.Zero(t, totals.Failures)
		for k, source := range []string{all, inner, file} {
			var want snapshot.Count
			count := func(n *tree.Node) {
				if n.Type != tree.Dir {
					want.Files++
					want.Bytes += n.Size
				}
			}
			if source == file {
				want = snapshot.Count{Files: 1, Bytes: 9}
			} else {
				for _, o := range e.Objects(out.Snapshot.Tree, source) {
					count(o.Node)
				}
			}
			require.Equal(t, snapshot.Held{Count: want}, out.Snapshot.Held[k], "change %d, %s", i, source)
		}
	}
}

// TestRewritingMostFilesIsAWarning: other content in most files is reported with numbers, other times are not.
func TestRewritingMostFilesIsAWarning(t *testing.T) {
	dir := testkit.RamDir(t)
	written(t, dir, 200, 10)
	e := kit.NewEngine(t, nil)
	warning := func() string {
		t.Helper()
		out, _, err := e.Backup(e.JobOf(dir))
		require.NoError(t, err)
		require.False(t, out.Failed)
		return out.Sources[0].Warning
	}
	require.Empty(t, warning(), "all are new")
	written(t, dir, 200, 10)
	require.Empty(t, warning(), "only their times changed")
	written(t, dir, 100, 11)
	require.Empty(t, warning(), "half of them changed")
	written(t, dir, 101, 12)
	require.Contains(t, warning(), "101 of 200 files have other content")
	require.Empty(t, warning())
	for i := range 101 {
		path := filepath.Join(dir, fmt.Sprint("d", i%7), fmt.Sprint("f", i))
		require.NoError(t, os.WriteFile(path+".locked", []byte(fmt.Sprint("encrypted ", i)), 0o644))
		require.NoError(t, os.Remove(path))
	}
	require.Contains(t, warning(), "101 of 200 files have other content or names")
	require.Empty(t, warning())
	written(t, filepath.Join(dir, "more"), 300, 10)
	require.Empty(t, warning(), "new files replace none")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "more")))
	require.Empty(t, func() string {
		job := e.JobOf(dir)
		job.Source.Shrink.Accept, job.Source.Comparing.Force = true, true
		out, _, err := e.Backup(job)
		require.NoError(t, err)
		return out.Sources[0].Warning
	}(), "without a snapshot to compare with all are new")
}
