package prune

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

func withoutKey(t *testing.T, st store.Store) *check.Result {
	t.Helper()
	res, err := check.WithoutKey(context.Background(), st, 2, report.NewJob(report.Check, time.Now))
	require.NoError(t, err)
	return res
}

// TestReservedFolderIsLeftAlone: no command reads, reports or changes the folder that is reserved for look-up tables,
// so that a newer program can add them to a repository that older ones use as well.
func TestReservedFolderIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(testkit.RamDir(t), "repo")
	st, err := local.Create(dir, nil)
	require.NoError(t, err)
	p := kit.NewPruned(t, st)
	first := p.Snapshot(1)
	table := testkit.Noise(7, 5000)
	files := []string{seal.FileID(table).String(), seal.FileID(table).String()[:32], "part/of/it"}
	for _, name := range files {
		path := filepath.Join(dir, "lookup", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, table, 0o400))
	}
	p.Snapshot(2)
	p.Forget(first)
	res, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.NotZero(t, res.Deleted.Packs)
	p.Snapshot(3)
	p.RequireWhole("beside look-up tables")
	require.True(t, withoutKey(t, p.Store).OK())
	require.NoError(t, p.With(func(r *repo.Repository) error {
		s, err := browse.Stats(context.Background(), r, browse.WholeRepository, nil)
		require.Zero(t, s.Damaged)
		return err
	}))
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, "lookup", name))
		require.NoError(t, err)
		require.Equal(t, table, data)
	}
}

// TestNewerIndexFileIsRefused: an object of an unknown kind among the index segments is a newer program's. Nothing is
// written beside it, and it is not taken for damage. That is why look-up tables have a folder of their own.
func TestNewerIndexFileIsRefused(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Forget(p.Snapshot(1))
	p.Snapshot(2)
	for _, name := range kit.EveryFile(t, p.Store) {
		if name.Kind == store.Index {
			data := kit.Load(t, p.Store, name)
			data[9] = 6 // the kind
			require.NoError(t, p.Store.Put(context.Background(), object.Named(store.Index, seal.FileID(data)), data))
			break
		}
	}
	packs := kit.Count(t, p.Store, store.Pack)
	_, err := p.Prune(kit.SmallPrune())
	require.ErrorIs(t, err, format.ErrUnsupported)
	_, _, err = p.Backup(p.SmallJob())
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.Equal(t, packs, kit.Count(t, p.Store, store.Pack))
	problems := p.Problems()
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], format.ErrUnsupported.Error())
	require.True(t, withoutKey(t, p.Store).OK(), "its name is the hash of its bytes")
}
