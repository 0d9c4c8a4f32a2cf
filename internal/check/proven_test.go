package check_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// unproven are the packs of the record that were never read back.
func unproven(t *testing.T, folder string) map[format.ID]bool {
	t.Helper()
	r, err := proofs.Read(folder)
	require.NoError(t, err)
	all := map[format.ID]bool{}
	for _, e := range r.Entries {
		if e.At == 0 {
			all[e.ID] = true
		}
	}
	return all
}

// TestRollingCoversEverything: so many runs prove every pack that was there at the first, also while others are stored.
func TestRollingCoversEverything(t *testing.T) {
	st, _, _ := sample(t)
	folder := t.TempDir()
	const runs = 4
	opt := check.Options{ReadData: true, Subset: check.Subset{Rolling: runs}, Proofs: folder}
	first := packsOf(t, st)
	require.Greater(t, len(first), runs)
	var bytes, total uint64
	for _, info := range files(t, st) {
		if info.Name.Kind == store.Pack {
			total += uint64(info.Size)
		}
	}
	for i := range runs {
		res := run(t, st, opt)
		require.True(t, res.OK())
		require.NotZero(t, res.PacksRead)
		bytes += res.BytesRead
		require.Equal(t, uint64(len(packsOf(t, st))), res.Proven.Packs)
		r, err := stored.Open(t, st)
		require.NoError(t, err)
		stored.Save(t, r, int64(10+i), dir{"new": stored.Noise(uint64(1000+i), 20<<10)})
	}
	left := unproven(t, folder)
	for _, id := range first {
		require.NotContains(t, left, id)
	}
	require.Less(t, bytes, 2*total, "nothing is read twice")
	// What is left comes next; then the oldest again.
	for range runs {
		run(t, st, opt)
	}
	require.Empty(t, unproven(t, folder))
	res := run(t, st, check.Options{Proofs: folder})
	require.Zero(t, res.Proven.Packs, "a check that reads no data proves nothing")
}

func packsOf(t *testing.T, st store.Store) (ids []format.ID) {
	t.Helper()
	for _, info := range files(t, st) {
		if info.Name.Kind == store.Pack {
			id, err := format.ParseID(info.Name.ID)
			require.NoError(t, err)
			ids = append(ids, id)
		}
	}
	return ids
}

// TestDamageIsNoProof: a pack that was proven and is damaged now counts as never proven; one that is gone is not
// counted.
func TestDamageIsNoProof(t *testing.T) {
	st, _, _ := sample(t)
	folder := t.TempDir()
	opt := check.Options{ReadData: true, Proofs: folder}
	require.True(t, run(t, st, opt).OK())
	require.Empty(t, unproven(t, folder))
	packs := packsOf(t, st)
	name := store.Name{Kind: store.Pack, ID: packs[0].String()}
	data := make([]byte, sizeOf(t, st, name))
	require.NoError(t, st.Get(t.Context(), name, 0, data))
	require.NoError(t, st.Put(t.Context(), name, faultstore.Flip(data, len(data)/2)))
	require.NoError(t, st.Delete(t.Context(), store.Name{Kind: store.Pack, ID: packs[1].String()}))
	res := run(t, st, opt)
	require.False(t, res.OK())
	require.Equal(t, map[format.ID]bool{packs[0]: true}, unproven(t, folder))
	require.EqualValues(t, 1, res.Proven.Unproven)
	require.EqualValues(t, len(packs)-1, res.Proven.Packs)
}

func sizeOf(t *testing.T, st store.Store, name store.Name) int64 {
	t.Helper()
	info, err := st.Stat(t.Context(), name)
	require.NoError(t, err)
	return info.Size
}

// TestInterruptedCheckKeepsItsProofs: what was read before the target went away need not be read again.
func TestInterruptedCheckKeepsItsProofs(t *testing.T) {
	st, _, _ := sample(t)
	folder := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, err := stored.Open(t, &stopping{Store: st, stop: stop, heads: map[store.Name]int{}})
	require.NoError(t, err)
	_, err = check.Run(ctx, r, check.Options{ReadData: true, Proofs: folder, Parallel: 1}, ledger())
	require.ErrorIs(t, err, context.Canceled)
	left := unproven(t, folder)
	require.NotEmpty(t, left)
	require.Less(t, len(left), len(packsOf(t, st)))
}

// stopping calls stop when the data of the fourth pack is read.
type stopping struct {
	store.Store
	stop  func()
	heads map[store.Name]int
	again int
}

func (s *stopping) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Pack && off == 0 { // the head of a pack is read with its table, and again with its data
		if s.heads[name]++; s.heads[name] == 2 {
			if s.again++; s.again == 4 {
				s.stop()
			}
		}
	}
	return s.Store.Get(ctx, name, off, p)
}

// TestDamagedRecordOfProofs: an unreadable record does not fail the check. The check reports that it starts over.
func TestDamagedRecordOfProofs(t *testing.T) {
	st, _, _ := sample(t)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "proofs"), []byte("nonsense"), 0o600))
	res := run(t, st, check.Options{ReadData: true, Subset: check.Subset{Rolling: 2}, Proofs: folder})
	require.True(t, res.OK())
	require.Contains(t, res.Notes, proofs.ErrDamaged.Error())
	require.NotZero(t, res.Proven.Unproven)
}
