package restore

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestLookFindsWhatChangedLater: Look reports the objects that a restore would replace although they changed after the
// snapshot: all kinds of them, by the overwrite rule, and nothing else. It makes and changes nothing.
func TestLookFindsWhatChangedLater(t *testing.T) {
	testkit.NoLeaks(t)
	top := testkit.TempDir(t)
	src, dst := filepath.Join(top, "src"), filepath.Join(top, "dst")
	write(t, src, "same", "mode", "old", "new", "sub/new", "sub/gone", "type/inside", "linked")
	require.NoError(t, os.Link(filepath.Join(src, "linked"), filepath.Join(src, "second")))
	require.NoError(t, os.Chtimes(filepath.Join(src, "same"), time.Time{}, time.Now().Add(time.Hour))) // during the backup
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Zero(t, look(t, e, src, restore.Target{Path: dst}).Differ)
	require.NoDirExists(t, dst)
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Zero(t, look(t, e, src, restore.Target{Path: dst}).Differ, "the same times as in the snapshot")

	later := time.Now().Add(time.Hour)
	for _, name := range []string{"new", "sub/new", "linked"} {
		require.NoError(t, os.WriteFile(filepath.Join(dst, name), []byte("changed"), 0o644))
		require.NoError(t, os.Chtimes(filepath.Join(dst, name), time.Time{}, later))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dst, "old"), []byte("changed"), 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(dst, "old"), time.Time{}, time.Unix(1e9, 0)))
	require.NoError(t, os.Remove(filepath.Join(dst, "sub/gone")))
	require.NoError(t, os.RemoveAll(filepath.Join(dst, "type")))
	require.NoError(t, os.WriteFile(filepath.Join(dst, "type"), nil, 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(dst, "type"), time.Time{}, later))
	write(t, dst, "other")
	require.NoError(t, os.Chmod(filepath.Join(dst, "mode"), 0o600))
	before := testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{})

	found := look(t, e, src, restore.Target{Path: dst, Delete: true, Verify: true})
	require.GreaterOrEqual(t, found.Differ, uint64(5), "new, old, sub/new, linked and type: %v", found.Examples)
	require.LessOrEqual(t, found.Differ, uint64(6), "second is a name of linked, which changed: %v", found.Examples)
	require.Len(t, found.Examples, int(found.Differ))
	require.Equal(t, found.Differ, look(t, e, src, restore.Target{Path: dst, Overwrite: restore.IfChanged}).Differ)
	require.Zero(t, look(t, e, src, restore.Target{Path: dst, Overwrite: restore.Never}).Differ)
	require.Equal(t, uint64(1), look(t, e, src, restore.Target{Path: dst, Overwrite: restore.IfNewer}).Differ, "old")
	require.Equal(t, before, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}),
		"nothing was changed")
}

// write makes files below dir, each with its own path as content.
func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(name), 0o644))
	}
}

// TestARestoreGoesOnAfterAKill: what a killed restore left half-made needs no consent to be replaced. A file that has
// other content does.
func TestARestoreGoesOnAfterAKill(t *testing.T) {
	testkit.NoLeaks(t)
	top := testkit.TempDir(t)
	src, dst := filepath.Join(top, "src"), filepath.Join(top, "dst")
	write(t, src, "inline", "inline too", "other")
	for _, name := range []string{"empty", "half", "whole", "other chunk"} {
		require.NoError(t, os.WriteFile(filepath.Join(src, name), testkit.Noise(uint64(len(name)), 2_000), 0o644))
	}
	require.NoError(t, os.Symlink("inline", filepath.Join(src, "link")))
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"inline", "inline too", "other", "empty", "half", "whole", "other chunk"} {
		require.NoError(t, os.Chtimes(filepath.Join(src, name), old, old))
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Lchown(filepath.Join(src, "link"), 1000, 1000))
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)

	kit.Settle()
	for name, size := range map[string]int64{"inline": 3, "inline too": 0, "empty": 0, "half": 1_000, "whole": 2_000} {
		path := filepath.Join(dst, name)
		require.NoError(t, os.Truncate(path, size))
		require.NoError(t, os.Chtimes(path, time.Now(), time.Now()))
	}
	require.NoError(t, os.Remove(filepath.Join(dst, "link")))
	require.NoError(t, os.Symlink("inline", filepath.Join(dst, "link")))
	require.NoError(t, os.Chtimes(dst, time.Now(), time.Now()))
	found := look(t, e, src, restore.Target{Path: dst, Unasked: true})
	require.Zero(t, found.Differ, found.Examples)
	require.Zero(t, look(t, e, src, restore.Target{Path: dst}).Differ)
	kit.Settle()
	totals, err := e.Restore(src, restore.Target{Path: dst, Unasked: true, Asked: time.Now()})
	require.NoError(t, err)
	require.Zero(t, totals.Failures)
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))

	require.NoError(t, os.WriteFile(filepath.Join(dst, "other"), []byte("mi"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dst, "other chunk"), []byte("mine"), 0o644))
	require.EqualValues(t, 2, look(t, e, src, restore.Target{Path: dst, Unasked: true}).Differ)
	totals, err = e.Restore(src, restore.Target{Path: dst, Unasked: true, Asked: time.Now()})
	require.NoError(t, err)
	require.EqualValues(t, 2, totals.Failures)
	content, err := os.ReadFile(filepath.Join(dst, "other chunk"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
}

// TestLookSeesEditsThatKeepSizeAndTime: what would be replaced by other content is found whatever its times, as long as
// its ctime is later than the snapshot. A file that was only touched is not. What Look cannot see stays.
func TestLookSeesEditsThatKeepSizeAndTime(t *testing.T) {
	testkit.NoLeaks(t)
	top := testkit.TempDir(t)
	src, dst := filepath.Join(top, "src"), filepath.Join(top, "dst")
	edits := map[string]time.Duration{"e0": 0, "e1": time.Millisecond, "e2": 900 * time.Millisecond,
		"e3": 1100 * time.Millisecond, "e4": 2500 * time.Millisecond, "e5": -time.Second}
	old := time.Now().Add(-time.Hour)
	for name := range edits {
		write(t, src, name)
	}
	write(t, src, "first", "touched", "touched a little")
	require.NoError(t, os.Link(filepath.Join(src, "first"), filepath.Join(src, "second")))
	for _, name := range []string{"first", "touched", "touched a little"} {
		require.NoError(t, os.Chtimes(filepath.Join(src, name), old, old))
	}
	for name := range edits {
		require.NoError(t, os.Chtimes(filepath.Join(src, name), old, old))
	}
	require.NoError(t, os.Symlink("aa", filepath.Join(src, "link")))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)

	kit.Settle()
	for name, later := range edits {
		require.NoError(t, os.WriteFile(filepath.Join(dst, name), []byte("E"+name[1:]), 0o644))
		require.NoError(t, os.Chtimes(filepath.Join(dst, name), old, old.Add(later)))
	}
	require.NoError(t, os.Chtimes(filepath.Join(dst, "touched"), old, old.Add(time.Minute)))
	require.NoError(t, os.Chtimes(filepath.Join(dst, "touched a little"), old, old.Add(time.Millisecond)))
	require.NoError(t, os.Remove(filepath.Join(dst, "first")))
	require.NoError(t, os.Remove(filepath.Join(dst, "second")))
	require.NoError(t, os.WriteFile(filepath.Join(dst, "second"), []byte("FIRST"), 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(dst, "second"), old, old))
	require.NoError(t, os.Remove(filepath.Join(dst, "link")))
	require.NoError(t, os.Symlink("bb", filepath.Join(dst, "link")))
	for _, unasked := range []bool{false, true} {
		found := look(t, e, src, restore.Target{Path: dst, Unasked: unasked})
		var names []string
		for _, path := range found.Examples {
			names = append(names, filepath.Base(path))
		}
		require.ElementsMatch(t, []string{"e0", "e1", "e2", "e3", "e4", "e5", "link", "second"}, names)
	}
	totals, err := e.Restore(src, restore.Target{Path: dst, Unasked: true, Asked: time.Now()})
	require.NoError(t, err)
	require.EqualValues(t, 8, totals.Failures)
	for name := range edits {
		content, err := os.ReadFile(filepath.Join(dst, name))
		require.NoError(t, err)
		require.Equal(t, "E"+name[1:], string(content))
	}
}

// TestIfNewerKeepsWhatIsNewerThanADirectory: a newer file or link stays in the place of a directory, which is reported,
// and a newer directory in the place of a file. What is older makes room.
func TestIfNewerKeepsWhatIsNewerThanADirectory(t *testing.T) {
	testkit.NoLeaks(t)
	top := testkit.TempDir(t)
	src, dst := filepath.Join(top, "src"), filepath.Join(top, "dst")
	write(t, src, "file", "newer file/x", "newer link/x", "older/x")
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Settle()
	write(t, dst, "newer file", "older")
	require.NoError(t, os.Symlink(top, filepath.Join(dst, "newer link")))
	require.NoError(t, os.Mkdir(filepath.Join(dst, "file"), 0o755))
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dst, "older"), long, long))
	totals, err := e.Restore(src, restore.Target{Path: dst, Overwrite: restore.IfNewer})
	require.NoError(t, err)
	require.EqualValues(t, 2, totals.Failures)
	require.Len(t, e.Failures(), 2)
	require.EqualValues(t, 1, totals.Objects.Kept, "the directory in the place of a file")
	require.DirExists(t, filepath.Join(dst, "file"))
	content, err := os.ReadFile(filepath.Join(dst, "newer file"))
	require.NoError(t, err)
	require.Equal(t, "newer file", string(content))
	at, err := os.Readlink(filepath.Join(dst, "newer link"))
	require.NoError(t, err)
	require.Equal(t, top, at)
	require.FileExists(t, filepath.Join(dst, "older/x"))
}

// look returns what a restore of src would replace or remove.
func look(t *testing.T, e *kit.Engine, src string, to restore.Target) (found *restore.Survey) {
	t.Helper()
	require.NoError(t, e.With(func(r *repo.Repository) error {
		s, err := r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
		require.NoError(t, err)
		found, err = restore.Look(context.Background(), r, restore.Selection{
			Sub: src, Tree: s.Snapshot.Tree, Sources: s.Snapshot.Sources, Made: s.Snapshot.Time,
		}, to)
		return err
	}))
	return found
}
