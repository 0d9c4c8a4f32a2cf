package proofs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

func sample() *Record {
	r := &Record{Turn: 7, Entries: []Entry{{format.ID{1}, 100, 6}, {format.ID{2}, 0, 7}, {format.ID{3}, 90, 5}}}
	r.Checked = time.Unix(200, 0).UTC()
	r.Drill = Drill{At: time.Unix(150, 0).UTC(), Snapshot: format.ID{9}, Files: 3, Live: 2, Failed: 1}
	r.Sum()
	return r
}

func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	empty, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, &Record{}, empty)

	want := sample()
	require.EqualValues(t, 3, want.Packs)
	require.EqualValues(t, 1, want.Unproven)
	require.Equal(t, time.Unix(90, 0).UTC(), want.Since)
	require.NoError(t, want.Write(dir))
	got, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, want, got)
	sum, err := ReadSummary(dir)
	require.NoError(t, err)
	require.Equal(t, want.Summary, sum)
	e, ok := got.Find(format.ID{3})
	require.True(t, ok)
	require.EqualValues(t, 90, e.At)
	_, ok = got.Find(format.ID{4})
	require.False(t, ok)

	require.NoError(t, WriteDrill(dir, Drill{At: time.Unix(300, 0)}))
	got, err = Read(dir)
	require.NoError(t, err)
	require.Equal(t, want.Entries, got.Entries)
	require.Equal(t, time.Unix(300, 0).UTC(), got.Drill.At)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// TestDamagedRecord: each byte that is wrong, and each that is missing, is noticed. The record says then that nothing
// was proven.
func TestDamagedRecord(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, sample().Write(dir))
	path := filepath.Join(dir, name)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range whole {
		bad := append([]byte{}, whole...)
		bad[i] ^= 1
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		r, err := Read(dir)
		require.ErrorIs(t, err, ErrDamaged, "byte %d", i)
		require.Equal(t, &Record{}, r)
		require.NoError(t, os.WriteFile(path, whole[:i], 0o600))
		_, err = Read(dir)
		require.ErrorIs(t, err, ErrDamaged, "length %d", i)
	}
	require.NoError(t, WriteDrill(dir, Drill{Files: 1}))
	_, err = Read(dir)
	require.NoError(t, err)
}
