package compare

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

func newRepository(t *testing.T) *repo.Repository {
	t.Helper()
	secret := repo.Secret{Method: keyfile.Passphrase, Value: []byte("correct horse")}
	r, _, err := repo.Init(t.Context(), mem.New(), repo.InitOptions{
		Secrets: []repo.Secret{secret}, Params: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}, Label: "test",
		Open: repo.OpenOptions{Unlock: stored.UnlockWith(secret), Cache: repo.CacheOptions{Dir: t.TempDir()}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// Digests outlast a boot, names do not. A run that finds a directory unchanged stores its names again only if an
// earlier run was under the same boot.
func TestNamesCountUntilTheNextBoot(t *testing.T) {
	r := newRepository(t)
	id := format.ID{1}
	listed := []repo.Listed{{ID: id, Snapshot: &snapshot.Snapshot{}}}
	key, memo := Digest{7}, CacheEntry{Stat: Digest{1}, Subtree: Digest{2}, Tree: format.ID{3}}
	one, two := BootID{1}, BootID{2}
	open := func(boot BootID) *Cache {
		m, err := OpenCache(r, listed, false, boot, report.New(time.Now))
		require.NoError(t, err)
		require.NotNil(t, m)
		return m
	}
	found := func(m *Cache) []byte {
		d, _, ok := m.Lookup(key, nil)
		require.True(t, ok)
		require.Equal(t, memo, d.CacheEntry)
		return d.Names
	}
	m := open(one)
	require.True(t, m.KeepsNames())
	require.False(t, m.StoresNames())
	m.Store(key, &memo, []byte("names"))
	m.Commit(id)

	m = open(one)
	require.True(t, m.StoresNames())
	require.Equal(t, "names", string(found(m)))
	require.Equal(t, "names", string(m.Names(key)))
	m.Discard()

	m = open(two)
	require.False(t, m.StoresNames(), "it may be the only run of this boot")
	require.Nil(t, found(m))
	m.Commit(id)

	m = open(two)
	require.True(t, m.StoresNames())
	require.Nil(t, found(m))
	m.Store(key, &memo, []byte("names again"))
	m.Commit(id)
	m = open(two)
	require.Equal(t, "names again", string(found(m)))
	m.Discard()

	m = open(BootID{})
	require.False(t, m.KeepsNames())
	require.False(t, m.StoresNames())
	require.Nil(t, found(m))
	m.Store(key, &memo, []byte("of no boot"))
	m.Commit(id)
	m = open(two)
	require.Nil(t, found(m))
	m.Discard()
}
