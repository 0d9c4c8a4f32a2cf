package marks_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

func tombstonesOf(t *testing.T, st store.Store) (names []store.Name) {
	t.Helper()
	for info, err := range st.List(t.Context(), store.Mark) {
		require.NoError(t, err)
		require.True(t, marks.Tombstone(info.Name))
		names = append(names, info.Name)
	}
	return names
}

func newKeys(t *testing.T) *seal.Keys {
	t.Helper()
	master := seal.NewMasterKey()
	keys := seal.Derive(master)
	return keys
}

func TestSnapshotsWithATombstoneAreNotMissed(t *testing.T) {
	st, keys := mem.New(), newKeys(t)
	ids := []format.ID{{1}, {2}, {3}}
	require.NoError(t, marks.PutTombstone(t.Context(), st, keys, ids[:2], nil))
	left, err := marks.WithoutTombstone(t.Context(), st, keys, ids)
	require.NoError(t, err)
	require.Equal(t, ids[2:], left)

	stale, err := marks.StaleTombstones(t.Context(), st, keys, time.Now().Add(300*24*time.Hour))
	require.NoError(t, err)
	require.Empty(t, stale)
	stale, err = marks.StaleTombstones(t.Context(), st, keys, time.Now().Add(366*24*time.Hour))
	require.NoError(t, err)
	require.Equal(t, tombstonesOf(t, st), stale, "a tombstone stays for a year")
}

// A damaged tombstone names nothing: the snapshot is missed, no command fails, and a prune removes the file.
func TestDamagedTombstoneIsHarmless(t *testing.T) {
	keys := newKeys(t)
	for _, damage := range []func(data []byte) []byte{
		func(data []byte) []byte { return data[:len(data)/2] },
		func([]byte) []byte { return nil },
		func(data []byte) []byte { data[len(data)-1] ^= 1; return data },
	} {
		st := mem.New()
		require.NoError(t, marks.PutTombstone(t.Context(), st, keys, []format.ID{{1}}, nil))
		name := tombstonesOf(t, st)[0]
		info, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		data := make([]byte, info.Size)
		require.NoError(t, st.Get(t.Context(), name, 0, data))
		require.NoError(t, st.Put(t.Context(), name, damage(bytes.Clone(data))))

		left, err := marks.WithoutTombstone(t.Context(), st, keys, []format.ID{{1}})
		require.NoError(t, err)
		require.Len(t, left, 1)
		stale, err := marks.StaleTombstones(t.Context(), st, keys, time.Now())
		require.NoError(t, err)
		require.Equal(t, []store.Name{name}, stale)
	}
}
