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
	require.Zero(t, look(t, e, src, restore.Target{Path: dst}).Newer)
	require.NoDirExists(t, dst)
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Zero(t, look(t, e, src, restore.Target{Path: dst}).Newer, "the same times as in the snapshot")

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
	require.GreaterOrEqual(t, found.Newer, uint64(5), "new, old, sub/new, linked and type: %v", found.Examples)
	require.LessOrEqual(t, found.Newer, uint64(6), "second is a name of linked, which changed: %v", found.Examples)
	require.Len(t, found.Examples, int(found.Newer))
	require.Equal(t, found.Newer, look(t, e, src, restore.Target{Path: dst, Overwrite: restore.IfChanged}).Newer)
	require.Zero(t, look(t, e, src, restore.Target{Path: dst, Overwrite: restore.Never}).Newer)
	require.Equal(t, uint64(1), look(t, e, src, restore.Target{Path: dst, Overwrite: restore.IfNewer}).Newer, "old")
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
	require.Zero(t, found.Newer, found.Examples)
	require.Zero(t, look(t, e, src, restore.Target{Path: dst}).Newer)
	kit.Settle()
	totals, err := e.Restore(src, restore.Target{Path: dst, Unasked: true, Asked: time.Now()})
	require.NoError(t, err)
	require.Zero(t, totals.Failures)
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))

	require.NoError(t, os.WriteFile(filepath.Join(dst, "other"), []byte("mi"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dst, "other chunk"), []byte("mine"), 0o644))
	require.EqualValues(t, 2, look(t, e, src, restore.Target{Path: dst, Unasked: true}).Newer)
	totals, err = e.Restore(src, restore.Target{Path: dst, Unasked: true, Asked: time.Now()})
	require.NoError(t, err)
	require.EqualValues(t, 2, totals.Failures)
	content, err := os.ReadFile(filepath.Join(dst, "other chunk"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
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
