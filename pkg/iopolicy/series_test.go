package iopolicy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// looks makes n calls that take so long each, and returns how many of them each operation was.
func looks(t testing.TB, ctx context.Context, p *iopolicy.Pass, s *iopolicy.Series, n int,
	takes time.Duration) (sizes []int) {
	for n > 0 {
		g, err := p.Begin(ctx, iopolicy.Op{Kind: iopolicy.Metadata})
		require.NoError(t, err)
		calls := s.Calls(g, n)
		time.Sleep(time.Duration(calls) * takes)
		s.End(g, calls)
		sizes = append(sizes, calls)
		n -= calls
	}
	return sizes
}

func TestCachedCallsShareAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		s := &iopolicy.Series{Most: 16}
		require.Equal(t, []int{1, 2, 4, 8, 16, 16, 3}, looks(t, t.Context(), pass, s, 50, time.Microsecond))
		require.EqualValues(t, 50, gate.Stats().Operations)
		require.Zero(t, gate.Stats().Charged)
		require.Zero(t, gate.Flying())
		require.Equal(t, []int{16, 1, 1}, looks(t, t.Context(), pass, s, 18, 100*time.Microsecond), "the device")
		require.EqualValues(t, 68, gate.Stats().Operations)
		require.EqualValues(t, 3, gate.Stats().Charged)
		require.Equal(t, []int{1, 2, 2}, looks(t, t.Context(), pass, s, 5, 0), "the cache again")

		var single iopolicy.Series
		require.Equal(t, []int{1, 1, 1}, looks(t, t.Context(), pass, &single, 3, 0))
		require.Equal(t, []int{1, 2, 1}, looks(t, t.Context(), nil, &iopolicy.Series{Most: 2}, 4, time.Second), "no gate")
	})
}

// The time that a series may take grows with its calls: one of them that waited for a device shows.
func TestSeriesEndsAtTheDevice(t *testing.T) {
	for calls, quick := range map[int]time.Duration{1: 7, 2: 9, 4: 13, 16: 37} {
		for _, device := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
				pass := gate.Pass(iopolicy.NewClient(iopolicy.Standard))
				s := &iopolicy.Series{Most: calls}
				looks(t, t.Context(), pass, s, 31, 0)
				g, err := pass.Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Metadata})
				require.NoError(t, err)
				require.Equal(t, calls, s.Calls(g, 100))
				takes, charged := quick*time.Microsecond, 0
				if device {
					takes, charged = takes+time.Microsecond, 1
				}
				time.Sleep(takes)
				s.End(g, calls)
				require.EqualValues(t, charged, gate.Stats().Charged, "%d calls in %v", calls, takes)
			})
		}
	}
}

// Inside a window every call is an operation, whatever was before, and has its period if it reaches the device.
func TestSeriesInsideAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter := &bytesMeter{}
		gate, _, pass := inWindow(t, iopolicy.Config{Metering: iopolicy.Metering{Meter: meter}}, iopolicy.Throttle)
		open := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
		free := open.Pass(iopolicy.NewClient(iopolicy.Throttle))
		s := &iopolicy.Series{Most: 16}
		looks(t, t.Context(), free, s, 31, 0)
		before := gate.Stats()
		require.Equal(t, []int{1, 1, 1, 1, 1}, looks(t, t.Context(), pass, s, 5, 0), "all from the cache")
		require.EqualValues(t, 5, gate.Stats().Operations-before.Operations)
		start := time.Now()
		for range 3 {
			g, err := pass.Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Metadata})
			require.NoError(t, err)
			calls := s.Calls(g, 10)
			require.Equal(t, 1, calls)
			time.Sleep(ms)
			meter.sum.Read += 4096
			s.End(g, calls)
		}
		require.EqualValues(t, 3, gate.Stats().Charged-before.Charged)
		require.Equal(t, 401*ms, time.Since(start), "two periods, and what the last one took")
	})
}
