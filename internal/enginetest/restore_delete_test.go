package enginetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store/local"
)

// TestDeleteSparesRepositories: a repository that lies in its source is in no snapshot of it. What --delete removes is
// everything else that is not there.
func TestDeleteSparesRepositories(t *testing.T) {
	dir := ramDir(t)
	src := filepath.Join(dir, "src")
	at := filepath.Join(src, "share/backups/repository")
	written(t, src, map[string]string{"f": "f", "d/g": "g"})
	require.NoError(t, os.MkdirAll(at, 0o700))
	st, err := local.Create(at, nil)
	require.NoError(t, err)
	e := newEngine(t, st)
	settle()
	job := e.job(src)
	b := rules.NewBuilder()
	b.Protect(filepath.Join(src, "share"), "the repository")
	job.Source.Rules = b.Compile()
	_, _, err = e.backup(job)
	require.NoError(t, err)
	written(t, src, map[string]string{"extra": "x", "share/other": "x", "d/extra/deep": "x"})

	for range 2 {
		_, err = e.restore(src, restore.Target{Path: src, Delete: true})
		require.NoError(t, err)
		require.Len(t, e.failures(), 1)
		require.Contains(t, e.failures()[0], "repository of backups")
		require.NoFileExists(t, filepath.Join(src, "extra"))
		require.NoDirExists(t, filepath.Join(src, "d/extra"))
		e.requireSound()
	}
	_, err = e.restore(src, restore.Target{Path: at, Delete: true})
	require.NoError(t, err)
	require.Len(t, e.failures(), 1, "not even if it is the target")
	e.requireSound()
	require.FileExists(t, filepath.Join(at, "d/g"))
}
