package repo_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// move takes files from one store to another.
func move(t *testing.T, from, to store.Store, files []store.Name) {
	t.Helper()
	for _, name := range files {
		data, err := object.ReadFile(t.Context(), from, name, -1)
		require.NoError(t, err)
		require.NoError(t, to.Put(t.Context(), name, data))
		require.NoError(t, from.Delete(t.Context(), name))
	}
}

// twice makes a repository that has stored all blobs in two packs each, and lost those with the newer copies.
func twice(t *testing.T, data [][]byte) (st *mem.Store, snapshots [2]format.ID, lost []store.Name) {
	t.Helper()
	st, aside := mem.New(), mem.New()
	snapshots[0] = mustBackUp(t, initialise(t, st), data)
	old := names(t, st, store.Pack)
	move(t, st, aside, old)
	snapshots[1] = mustBackUp(t, fresh(t, st), data)
	lost = names(t, st, store.Pack)
	require.NotEmpty(t, lost)
	move(t, st, mem.New(), lost)
	move(t, aside, st, old)
	return st, snapshots, lost
}

// A blob whose newest copy is damaged is read from an older one, with a cache and without.
func TestOlderCopyOfADamagedPack(t *testing.T) {
	data := blobs(1, 60)
	st, aside := mem.New(), mem.New()
	var snapshots [2]format.ID
	snapshots[0] = mustBackUp(t, initialise(t, st), data)
	old := names(t, st, store.Pack)
	move(t, st, aside, old)
	snapshots[1] = mustBackUp(t, fresh(t, st), data)
	for _, name := range names(t, st, store.Pack) {
		bad := bytesOf(t, st, name)
		for at := pack.HeaderSize; at < len(bad)-pack.FooterSize; at += 50 {
			bad[at] ^= 1
		}
		require.NoError(t, st.Put(t.Context(), name, bad))
	}
	move(t, aside, st, old)
	dir := t.TempDir()
	for _, dir := range []string{"", dir, dir} {
		var noted notes
		r := cached(t, st, dir, &noted)
		for _, id := range snapshots {
			requireComplete(t, r, id, data)
		}
		require.NoError(t, r.Close())
	}
}

// A blob with its newest place in a lost pack is read from an older one, with a cache and without. The lost packs are
// not searched for with each blob, and the cache is not blamed.
func TestOlderCopyOfALostPack(t *testing.T) {
	data := blobs(1, 60)
	st, snapshots, lost := twice(t, data)
	dir := t.TempDir()
	for run, dir := range []string{"", dir, dir} {
		gets := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Get, Kind: store.Index})
		lists := faultstore.Wrap(gets, faultstore.Plan{Ops: faultstore.List, Kind: store.Pack})
		packs := faultstore.Wrap(lists, faultstore.Plan{})
		var noted notes
		r := cached(t, packs, dir, &noted)
		for _, id := range snapshots {
			requireComplete(t, r, id, data)
		}
		require.Equal(t, 1, lists.Matched(), "run %d", run)
		require.LessOrEqual(t, gets.Matched(), 2*len(names(t, st, store.Index)), "run %d", run)
		reads := packs.Reads()
		for _, name := range lost {
			require.LessOrEqual(t, reads[name], 1, "run %d: %s", run, name)
		}
		require.NoError(t, r.Close())
		require.Equal(t, 1, strings.Count(noted.String(), again), "run %d", run)
		require.NotContains(t, noted.String(), "damaged", "run %d", run)
	}
}
