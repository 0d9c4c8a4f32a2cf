package share

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestAppendOnlyShare: the recipe of docs/append-only.md. A client may add; what is older than the grace can be neither
// removed nor overwritten by it. Here the grace is some seconds, and longer than each backup.
func TestAppendOnlyShare(t *testing.T) {
	t.Parallel()
	smbtest.NeedModule(t, "worm")
	const grace = 5 * time.Second
	s := smbtest.Start(t, smbtest.Config{Folder: testkit.RamDir(t),
		Share: []string{"vfs objects = worm", "worm:grace_period = 5"}})
	src := filepath.Join(testkit.RamDir(t), "src")
	written(t, src, 1, map[string]int{"a": 700_000, "deep/b": 300})
	kit.Settle()
	m := newMachine(t, s, at(s), smb.Options{})
	m.requireBackup(m.job(src))
	require.Empty(t, leases(t, m), "the lease is removed within the grace")

	// The leftovers of a killed client cannot be removed any more, and block no other client.
	left := filepath.Join(m.st.disk, "snapshots", store.TempPrefix+"0123456789abcdef")
	require.NoError(t, os.WriteFile(left, []byte("x"), 0o600))
	require.NoError(t, os.Chtimes(left, time.Unix(1, 0), time.Unix(1, 0)))
	outlast(grace)

	for _, kind := range []store.Kind{store.Pack, store.Snapshot, store.Index, store.Key, store.Config} {
		tried := 0
		for info, err := range m.st.List(t.Context(), kind) {
			require.NoError(t, err)
			before, err := os.ReadFile(filepath.Join(m.st.disk, filepath.FromSlash(info.Name.Path())))
			require.NoError(t, err)
			require.Error(t, m.st.Store.Delete(t.Context(), info.Name), "%s was removed", info.Name.Path())
			if kind == store.Pack && tried == 0 { // refused renames are tried again for ten seconds
				require.Error(t, m.st.Store.Put(t.Context(), info.Name, []byte("forged")), "%s was overwritten", info.Name.Path())
			}
			after, err := os.ReadFile(filepath.Join(m.st.disk, filepath.FromSlash(info.Name.Path())))
			require.NoError(t, err)
			require.Equal(t, before, after)
			tried++
		}
		require.NotZero(t, tried, kind)
	}
	err := m.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(t.Context())
		require.NoError(t, err)
		_, _, err = forget.Drop(t.Context(), r, listed)
		return err
	})
	require.ErrorContains(t, err, "not delete these", "a snapshot was dropped")

	// Adding still works, and everything is there.
	written(t, src, 2, map[string]int{"c": 500_000})
	kit.Settle()
	m.requireBackup(m.job(src))
	m.requireSound(src)
	require.FileExists(t, left)
}

// outlast waits until what was just stored is older than a grace of the server, which counts in seconds of its own
// clock.
func outlast(grace time.Duration) { time.Sleep(grace + 2*time.Second) }

func leases(t *testing.T, m *machine) (names []string) {
	t.Helper()
	for info, err := range m.st.List(t.Context(), store.Lease) {
		require.NoError(t, err)
		names = append(names, info.Name.ID)
	}
	return names
}
