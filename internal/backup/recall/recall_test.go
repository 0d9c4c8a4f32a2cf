package recall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

func newRepository(t *testing.T) *repo.Repository {
	t.Helper()
	secret := repo.Secret{Method: keyfile.Passphrase, Value: []byte("correct horse")}
	p := chunker.DefaultParams()
	r, _, err := repo.Init(t.Context(), mem.New(), repo.InitOptions{
		Secrets: []repo.Secret{secret}, Params: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}, Label: "test",
		Chunker: config.Chunker{Algorithm: 1, Min: p.Min, Avg: p.Avg, Max: p.Max},
		Open:    repo.OpenOptions{Unlock: repo.UnlockWith(secret), CacheDir: t.TempDir()},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// Signatures outlast a start of the system, names do not; and a run that finds a directory unchanged puts its names again
// only where an earlier run has seen the same start.
func TestNamesCountUntilTheSystemIsStartedAnew(t *testing.T) {
	r := newRepository(t)
	id := format.ID{1}
	listed := []repo.Listed{{ID: id, Snapshot: &snapshot.Snapshot{}}}
	key, memo := signature.Signature{7}, signature.Memo{Local: signature.Signature{1}, Full: signature.Signature{2}, Tree: format.ID{3}}
	one, two := Boot{1}, Boot{2}
	open := func(boot Boot) *Memory {
		m, err := Open(r, listed, false, boot, report.New(time.Now))
		require.NoError(t, err)
		require.NotNil(t, m)
		return m
	}
	found := func(m *Memory) []byte {
		d, _, ok := m.Find(key, nil)
		require.True(t, ok)
		require.Equal(t, memo, d.Memo)
		return d.Names
	}
	m := open(one)
	require.True(t, m.HoldsNames())
	require.False(t, m.Renew())
	m.Put(key, &memo, []byte("names"))
	m.Commit(id)

	m = open(one)
	require.True(t, m.Renew())
	require.Equal(t, "names", string(found(m)))
	require.Equal(t, "names", string(m.Names(key)))
	m.Discard()

	m = open(two)
	require.False(t, m.Renew(), "nobody knows how long this one lasts")
	require.Nil(t, found(m))
	m.Commit(id)

	m = open(two)
	require.True(t, m.Renew())
	require.Nil(t, found(m))
	m.Put(key, &memo, []byte("names again"))
	m.Commit(id)
	m = open(two)
	require.Equal(t, "names again", string(found(m)))
	m.Discard()

	m = open(Boot{})
	require.False(t, m.HoldsNames())
	require.False(t, m.Renew())
	require.Nil(t, found(m))
	m.Put(key, &memo, []byte("of no start"))
	m.Commit(id)
	m = open(two)
	require.Nil(t, found(m))
	m.Discard()
}
