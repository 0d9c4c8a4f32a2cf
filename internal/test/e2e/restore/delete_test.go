package restore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestDeleteSparesRepositories: a repository that lies in its source is in no snapshot of it. What --delete removes is
// everything else that is not there.
func TestDeleteSparesRepositories(t *testing.T) {
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	at := filepath.Join(src, "share/backups/repository")
	kit.Written(t, src, map[string]string{"f": "f", "d/g": "g"})
	require.NoError(t, os.MkdirAll(at, 0o700))
	st, err := local.Create(at, nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	kit.Settle()
	job := e.Job(src)
	b := rules.NewBuilder()
	b.Protect(filepath.Join(src, "share"), "the repository")
	job.Source.Rules = b.Compile()
	_, _, err = e.Backup(job)
	require.NoError(t, err)
	kit.Written(t, src, map[string]string{"extra": "x", "share/other": "x", "d/extra/deep": "x"})

	for range 2 {
		_, err = e.Restore(src, restore.Target{Path: src, Delete: true})
		require.NoError(t, err)
		require.Len(t, e.Failures(), 1)
		require.Contains(t, e.Failures()[0], "repository of backups")
		require.NoFileExists(t, filepath.Join(src, "extra"))
		require.NoDirExists(t, filepath.Join(src, "d/extra"))
		e.RequireSound()
	}
}

// TestDeleteSparesKeyFiles: --delete removes no key file of a repository, which may be the only one.
func TestDeleteSparesKeyFiles(t *testing.T) {
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	key := filepath.Join(src, "config/tidemark/keys", strings.Repeat("0a", 16)+".key")
	kit.Written(t, src, map[string]string{"f": "f"})
	kit.Settle()
	e := kit.NewEngine(t, mem.New())
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Written(t, src, map[string]string{"extra.key": "x"})
	require.NoError(t, os.MkdirAll(filepath.Dir(key), 0o700))
	require.NoError(t, os.WriteFile(key, []byte("secret"), 0o600))
	for _, dry := range []bool{true, false} {
		_, err = e.Restore(src, restore.Target{Path: src, Delete: true, DryRun: dry})
		require.NoError(t, err)
		require.FileExists(t, key)
	}
	require.Len(t, e.Failures(), 1)
	require.Contains(t, e.Failures()[0], "key file")
	require.NoFileExists(t, filepath.Join(src, "extra.key"))
}

// TestRestoreIntoFolderWithNamesOfRepository: a repository has a file "config", so a folder of that name is no sign of
// one.
func TestRestoreIntoFolderWithNamesOfRepository(t *testing.T) {
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	e := kit.NewEngine(t, mem.New())
	for _, name := range []string{"config", "keys", "packs", "snapshots", "sub/config", "sub/keys", "sub/packs",
		"sub/snapshots"} {
		kit.Written(t, src, map[string]string{name + "/f": "saved"})
		kit.Written(t, dst, map[string]string{name + "/f": "other content"})
	}
	kit.Settle()
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	got, err := os.ReadFile(filepath.Join(dst, "sub/keys/f"))
	require.NoError(t, err)
	require.Equal(t, "saved", string(got))
}

// TestRestoreSparesRepositories: a restore refuses a repository as its target, and everything in it, by any path. Below
// the target it replaces nothing in a repository, and restores everything else.
func TestRestoreSparesRepositories(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	at := filepath.Join(dst, "share/repository")
	kit.Written(t, src, map[string]string{
		"share/repository/config": "evil", "share/repository/keys/deep/x": "x", "share/repository/snapshots": "evil",
		"share/repository/new": "new", "share/f": "f", "config": "evil",
	})
	require.NoError(t, os.MkdirAll(filepath.Join(at, "keys/deep"), 0o700))
	st, err := local.Create(at, nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	kit.Settle()
	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Written(t, dst, map[string]string{"share/f": "other", "share/repository/keys/deep/x": "y"})
	for _, name := range []string{"config", "keys", "packs", "snapshots"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dst, "other", name), 0o700))
	}
	require.NoError(t, os.Symlink(filepath.Join(at, "keys"), filepath.Join(dir, "link")))
	before := testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{})

	for _, target := range []string{at, at + "/", at + "/packs", at + "/not/yet/there", dir + "/link", dir +
		"/link/../none"} {
		for _, remove := range []bool{false, true} {
			_, err = e.Restore(src, restore.Target{Path: target, Delete: remove})
			require.ErrorContains(t, err, at+" is a repository of backups", target)
		}
	}
	require.Equal(t, before, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}),
		"nothing was written")
	for _, remove := range []bool{false, true} {
		for _, dry := range []bool{true, false} {
			_, err = e.Restore(src, restore.Target{Path: dst, Delete: remove, DryRun: dry})
			require.NoError(t, err)
			failed := strings.Join(e.Failures(), "\n")
			for _, name := range []string{"config", "keys/deep/x", "snapshots"} {
				require.Contains(t, failed, "share/repository/"+name+": restore: it lies in a repository", "dry: %v", dry)
			}
			require.Equal(t, remove, strings.Contains(failed, at+": delete: "), failed)
			require.Equal(t, remove, strings.Contains(failed, dst+"/other: delete: "), failed)
		}
		e.RequireSound()
		for name, content := range map[string]string{"f": "f", "repository/keys/deep/x": "y", "repository/new": "new"} {
			there, err := os.ReadFile(filepath.Join(dst, "share", name))
			require.NoError(t, err)
			require.Equal(t, content, string(there))
		}
	}
}
