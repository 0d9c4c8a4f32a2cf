package share

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

func TestPacksTable(t *testing.T) {
	var b bench
	for round, v := range [][2]float64{{1, 2}, {100, 300}, {10, 50}} {
		b.record(ofPacks, "a", round, map[string]float64{"rate": v[0]})
		b.record(ofPacks, "b", round, map[string]float64{"rate": v[1]})
	}
	require.Equal(t, "|  | MB/s | of the first |\n|---|---|---|\n| a | 10 | 1 |\n| b | 50 | 3 |\n", b.packsTable())
}

// TestHost: what would end a test ends a measurement, with its reason.
func TestHost(t *testing.T) {
	h := &host{scratch: t.TempDir()}
	err := h.Guard(func() error {
		require.NoError(h, errors.New("no such thing"))
		return nil
	})
	require.ErrorIs(t, err, smbtest.ErrStopped)
	require.ErrorContains(t, err, "no such thing")
	require.ErrorContains(t, h.Guard(func() error { h.Skipf("needs %s", "smbd"); return nil }), "needs smbd")
	require.NoError(t, h.Guard(func() error { return nil }), "what was said is not said again")
	require.Panics(t, func() { _ = h.Guard(func() error { panic("a mistake") }) })
	var order []int
	h.Cleanup(func() { order = append(order, 1) })
	h.Cleanup(func() { order = append(order, 2) })
	require.NoError(t, h.close())
	require.Equal(t, []int{2, 1}, order)
}
