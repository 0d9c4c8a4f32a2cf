package repo_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/snapcache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestSnapshotsFromCopies: a snapshot is read from the target once, and again if its copy is damaged, if its size is
// another, and where a command asks for the target. A listing removes the copies of snapshots that are gone.
func TestSnapshotsFromCopies(t *testing.T) {
	inner := mem.New()
	maker := initialise(t, inner)
	ids := []format.ID{save(t, maker, snap(format.ID{1}, "h", 1)), save(t, maker, snap(format.ID{2}, "h", 2))}
	st := faultstore.Wrap(inner, faultstore.Plan{})
	open := repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: t.TempDir()}}
	list := func(ctx context.Context, reads int, why string) (all []repo.Listed) {
		t.Helper()
		st.Reads()
		all, err := openWith(t, st, open).Snapshots(ctx)
		require.NoError(t, err)
		require.Equal(t, reads, st.Reads().Of(store.Snapshot), why)
		return all
	}
	list(t.Context(), 2, "nothing is known")
	all := list(t.Context(), 0, "both have copies")
	require.Len(t, all, 2)
	require.False(t, all[0].Stored.IsZero(), "the listing dates it")
	list(repo.FromTarget(t.Context()), 2, "the target is asked for")
	open.Cache.Temporary = true
	list(t.Context(), 2, "no cache is wanted")
	open.Cache.Temporary = false
	folder := filepath.Join(open.Cache.Dir, maker.ID(), "snapshots")
	require.NoError(t, os.Truncate(filepath.Join(folder, ids[0].String()), 9))
	require.Len(t, list(t.Context(), 1, "a copy is torn"), 2)
	list(t.Context(), 0, "it is whole again")

	// The file changes in place: what reads the target sees it, and all others from then on.
	name := store.Name{Kind: store.Snapshot, ID: ids[0].String()}
	whole := bytesOf(t, inner, name)
	bad := append([]byte(nil), whole...)
	bad[50] ^= 1
	require.NoError(t, inner.Put(t.Context(), name, bad))
	require.NoError(t, list(t.Context(), 0, "nothing shows it")[1].Err)
	for _, ctx := range []context.Context{repo.FromTarget(t.Context()), t.Context()} {
		st.Reads()
		all, err := openWith(t, st, open).Snapshots(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, all[1].Err, format.ErrCorrupt)
	}
	require.NoError(t, inner.Put(t.Context(), name, whole))
	list(t.Context(), 1, "it is read until it is intact")
	list(t.Context(), 0, "then it counts again")

	// Another size shows in the listing.
	require.NoError(t, inner.Put(t.Context(), name, whole[:60]))
	all, err := openWith(t, st, open).Snapshots(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, all[1].Err, format.ErrCorrupt)

	require.NoError(t, inner.Delete(t.Context(), name))
	require.Len(t, list(t.Context(), 0, "the other has a copy"), 1)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, ids[1].String(), entries[0].Name())
}

// TestCopiesAreBounded: the newest snapshots have copies, as far as they fit.
func TestCopiesAreBounded(t *testing.T) {
	st := mem.New()
	dir := t.TempDir()
	r := openWith(t, initialise(t, st).Store(), repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir},
	})
	save(t, r, snap(format.ID{1}, "h", 1))
	large := make([]byte, snapcache.Limit-100)
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Snapshot, ID: format.ID{7}.String()}, large))
	_, err := r.Snapshots(t.Context())
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Join(dir, r.ID(), "snapshots"))
	require.NoError(t, err)
	require.Empty(t, entries)
}
