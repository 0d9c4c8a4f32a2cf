package kit

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// RequireReadable restores a whole snapshot and requires that nothing is missing in it.
func (e *Engine) RequireReadable(ref, dir string) {
	e.T.Helper()
	l := report.NewJob(report.Restore, time.Now)
	err := e.With(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(context.Background(), ref, repo.Filter{})
		if err != nil {
			return err
		}
		dst := filepath.Join(testkit.RamDir(e.T), "out")
		_, err = restore.Run(context.Background(), r, restore.Selection{Tree: found.Snapshot.Tree, Sub: dir},
			restore.Target{Path: dst}, 2, l)
		return err
	})
	require.NoError(e.T, err)
	require.Empty(e.T, l.Issues())
}

// RequireNothingWrong: every regular file that exists has exactly the content of the original.
func RequireNothingWrong(t testing.TB, src, dst, what string) {
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

func EveryFile(t testing.TB, st store.Store) []store.Name {
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

func Load(t testing.TB, st store.Store, name store.Name) []byte {
	t.Helper()
	info, err := st.Stat(context.Background(), name)
	require.NoError(t, err)
	data := make([]byte, info.Size)
	require.NoError(t, st.Get(context.Background(), name, 0, data))
	return data
}
