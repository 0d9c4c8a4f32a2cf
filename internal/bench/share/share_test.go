package share

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// frame is one of connection 0.
func frame(toServer bool, command uint16, number uint64, status uint32, size int) *smbtest.Frame {
	data := make([]byte, 64+size)
	data[0] = 0xfe
	binary.LittleEndian.PutUint32(data[8:], status)
	binary.LittleEndian.PutUint16(data[12:], command)
	binary.LittleEndian.PutUint64(data[24:], number)
	return &smbtest.Frame{ToServer: toServer, Data: data}
}

// TestCounter: requests sent at once count as one round trip, a request after an answer counts as another, and an
// interim answer does not count.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		c := &counter{oneWay: trip / 2, sent: map[[2]uint64]request{}}
		ask := func(command uint16, number uint64, size int) { c.look(frame(true, command, number, 0, size)) }
		answer := func(command uint16, number uint64, status uint32) { c.look(frame(false, command, number, status, 8)) }
		ask(smbtest.Create, 1, 8)
		answer(smbtest.Create, 1, 0)
		ask(smbtest.Create, 2, 8) // before the answer has arrived
		require.Equal(t, 0, c.roundTrips())
		time.Sleep(trip / 2)
		require.Equal(t, 1, c.roundTrips())
		ask(smbtest.Write, 3, piece+48)
		ask(smbtest.Write, 4, 100)
		answer(smbtest.Create, 2, 0)
		time.Sleep(trip)
		answer(smbtest.Write, 3, pending)
		answer(smbtest.Write, 4, 0)
		time.Sleep(trip)
		require.Equal(t, 2, c.roundTrips())
		answer(smbtest.Write, 3, 0)
		answer(smbtest.Write, 9, 0) // an answer without a request
		ask(smbtest.Flush, 5, 8)
		require.Equal(t, 5, c.requests())
		require.Equal(t, map[string]int{"create": 2, "write": 2, "flush": 1}, c.each())
		require.Equal(t, []time.Duration{2 * trip}, c.took(), "only those of whole pieces count")
		answer(smbtest.Flush, 5, 0)
		c.settle()
		require.Equal(t, 3, c.roundTrips())
	})
}

func TestJudge(t *testing.T) {
	require.Nil(t, judge(make([]time.Duration, window-1)))
	var took []time.Duration
	for i := range 4 * window {
		took = append(took, time.Millisecond)
		if i >= 3*window && i%5 == 0 { // in the last window
			took[i] = 2 * time.Millisecond
		}
	}
	got := judge(append(took, time.Hour)) // what does not fill a window counts for the median only
	require.Equal(t, 1.0, got["p50"])
	require.Equal(t, 1.0, got["least"])
	require.Equal(t, 2.0, got["most"])
	require.Equal(t, 0.25, got["strained"])
	require.Equal(t, 4.0, got["windows"])
}

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
