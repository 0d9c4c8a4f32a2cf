package restore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// drilled makes a drill of the newest snapshot and requires that nothing is left in its folder.
func drilled(e *kit.Engine, opt drill.Options) (res *drill.Result, err error) {
	e.T.Helper()
	opt.Folder, opt.Workers = e.T.TempDir(), 2
	if opt.Host == "" {
		opt.Host = "test"
	}
	e.Ledger = report.NewJob(report.Restore, time.Now)
	err = e.With(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
		require.NoError(e.T, err)
		opt.Snapshots = []repo.Listed{found}
		res, err = drill.Run(context.Background(), r, opt, e.Ledger)
		return err
	})
	left, lerr := os.ReadDir(opt.Folder)
	require.NoError(e.T, lerr)
	require.Empty(e.T, left)
	return res, err
}

// TestDrill: files that are unchanged are compared with those on this machine, others with their hashes only.
func TestDrill(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := testkit.RamDir(t)
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = string(testkit.Noise(uint64(i), 3000+i))
	}
	files["big"] = string(testkit.Noise(99, 5<<20))
	kit.Written(t, src, files)
	require.NoError(t, os.Chmod(filepath.Join(src, "d1"), 0o555))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)

	all, err := drilled(e, drill.Options{Percent: 100})
	require.NoError(t, err)
	require.Equal(t, drill.Result{Snapshots: 1, Files: 51, Bytes: all.Bytes, Live: 51}, *all)
	other, err := drilled(e, drill.Options{Percent: 100, Host: "another machine"})
	require.NoError(t, err)
	require.Zero(t, other.Live)
	few, err := drilled(e, drill.Options{Files: 7, Seed: 3})
	require.NoError(t, err)
	again, err := drilled(e, drill.Options{Files: 7, Seed: 3})
	require.NoError(t, err)
	require.Equal(t, *few, *again)
	require.EqualValues(t, 7, few.Live)

	// The hash proves a file whose times changed. A file that differs in its bytes alone was damaged on the disk.
	kit.Written(t, src, map[string]string{"d2/f2": "changed"})
	changed, err := drilled(e, drill.Options{Percent: 100})
	require.NoError(t, err)
	require.EqualValues(t, 50, changed.Live)
	require.Zero(t, changed.Failed)
}

// TestDrillFindsDamage of the repository, and names the file.
func TestDrillFindsDamage(t *testing.T) {
	src := testkit.RamDir(t)
	kit.Written(t, src, map[string]string{"f": string(testkit.Noise(1, 1<<20)), "tiny": "x"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	for _, name := range kit.EveryFile(t, e.Store) {
		if data := kit.Load(t, e.Store, name); name.Kind == store.Pack && len(data) > 1<<20 {
			data[1<<19] ^= 1
			require.NoError(t, e.Store.Put(context.Background(), name, data))
		}
	}
	res, err := drilled(e, drill.Options{Files: 10})
	require.NoError(t, err)
	require.EqualValues(t, 1, res.Failed, "a file that is neither restored nor verified is one file")
	require.EqualValues(t, 1, res.Live)
	require.Contains(t, strings.Join(e.Failures(), "\n"), filepath.Join(src, "f"))
}
