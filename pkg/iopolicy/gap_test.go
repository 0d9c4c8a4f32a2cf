package iopolicy_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// deaf is a Watcher that hears others only while nothing of our own is on the device.
type deaf struct {
	every, length time.Duration
	foreign       func() bool // others use the device
	last          iopolicy.Moment
	gaps          []time.Duration
	looks         int // in the present gap
}

func (d *deaf) Interval() time.Duration { return 5 * time.Millisecond }

func (d *deaf) NeedsGaps() (every, length time.Duration) { return d.every, d.length }

func (d *deaf) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	if m.Inflight == 0 && d.last.Inflight == 0 && m.Begun == d.last.Begun && !d.last.At.IsZero() {
		if d.looks++; d.looks == 1 {
			d.gaps = append(d.gaps, 0)
		}
		d.gaps[len(d.gaps)-1] += m.At.Sub(d.last.At)
		if d.foreign() {
			s.Newest[0] = m.At
		}
	} else {
		d.looks = 0
	}
	d.last = m
	return s
}

// busy lets workers do operations of 2 ms, one after the other, and returns how many there were.
func busy(g *iopolicy.Gate, p iopolicy.Policy, workers int, long time.Duration) (n int) {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	pass := g.Pass(iopolicy.NewClient(p))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				grant, err := pass.Begin(ctx, iopolicy.Op{Kind: iopolicy.Read, Certain: true})
				if err != nil {
					return
				}
				time.Sleep(2 * time.Millisecond)
				grant.End(4096)
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return n
}

func TestForcedGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: 200 * time.Millisecond, length: 5 * time.Millisecond, foreign: func() bool { return false }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: w, Medium: iopolicy.SSD})
		n := busy(g, iopolicy.Throttle, 3, 10*time.Second)
		require.GreaterOrEqual(t, len(w.gaps), 40, "one in every 210 ms or so")
		for _, gap := range w.gaps {
			require.Equal(t, w.length, gap)
		}
		require.GreaterOrEqual(t, n, 3*5000*94/100, "the price is some five in a hundred")
	})
}

func TestIOSeenInAForcedGapOpensAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: 200 * time.Millisecond, length: 5 * time.Millisecond, foreign: func() bool { return true }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: w, Medium: iopolicy.SSD})
		n := busy(g, iopolicy.Throttle, 3, 10*time.Second)
		full := 3 * 230 / 2                   // until the first gap ends
		require.Less(t, n, full+10*1000/25+3) // then one in each period
		require.Greater(t, n, 10*1000/25*9/10)
	})
}

func TestForcedGapDoesNotDelayTierZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: 200 * time.Millisecond, length: 5 * time.Millisecond, foreign: func() bool { return false }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: w, Medium: iopolicy.SSD})
		require.Equal(t, 5000, busy(g, iopolicy.Important, 1, 10*time.Second-time.Millisecond))
		require.Empty(t, w.gaps)
	})
}

func TestForcedGapAndCancelledWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: time.Millisecond, length: time.Hour, foreign: func() bool { return false }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: w, Medium: iopolicy.SSD})
		start := time.Now()
		require.Less(t, busy(g, iopolicy.Throttle, 3, time.Second), 100)
		require.Equal(t, time.Second, time.Since(start))
		// Tier 0 is not delayed, and Shut and Open do not end the gap.
		g.Shut()
		g.Open()
		require.Positive(t, busy(g, iopolicy.Important, 1, time.Second))
		require.Zero(t, busy(g, iopolicy.Throttle, 1, time.Second))
	})
}

// inGap returns a gate at which a forced gap has begun and one operation is in flight, and a pass.
func inGap() (*iopolicy.Gate, *iopolicy.Client, *iopolicy.Pass, iopolicy.Grant) {
	w := &deaf{every: time.Millisecond, length: 5 * time.Millisecond, foreign: func() bool { return false }}
	g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: w, Medium: iopolicy.SSD})
	c := iopolicy.NewClient(iopolicy.Throttle)
	pass := g.Pass(c)
	under, _ := pass.Begin(context.Background(), iopolicy.Op{Certain: true})
	other, _ := pass.Begin(context.Background(), iopolicy.Op{Certain: true})
	time.Sleep(10 * time.Millisecond)
	other.End(0)
	return g, c, pass, under
}

// comes begins one operation and ends it, and returns after how long it began.
func comes(pass *iopolicy.Pass) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	go func() {
		defer cancel()
		grant, err := pass.Begin(ctx, iopolicy.Op{Certain: true})
		if err == nil {
			took <- time.Since(start)
			grant.End(0)
		}
		close(took)
	}()
	synctest.Wait()
	return took
}

func TestForcedGapBeginsDuringAnAdmissionCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, pass, under := inGap()
		g.Hesitate(3, 1) // one that begins at this moment is counted, sees that it may not, and is taken back
		under.End(0)
		g.Hesitate(3, -1)
		took, ok := <-comes(pass)
		require.True(t, ok, "no operation would ever be released")
		require.Equal(t, 5*time.Millisecond, took)
	})
}

func TestForcedGapReleasesAnImportantClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, pass, under := inGap()
		came := comes(pass)
		require.Empty(t, came)
		time.Sleep(time.Second)
		c.SetPolicy(iopolicy.Important)
		require.Equal(t, time.Second, <-came)
		under.End(0)
	})
}

func TestForcedGapIsCancelledByTierZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, pass, under := inGap()
		came := comes(pass)
		require.Empty(t, came)
		important := g.Pass(iopolicy.NewClient(iopolicy.Important))
		first, err := important.Begin(t.Context(), iopolicy.Op{Certain: true})
		require.NoError(t, err)
		under.End(0)
		for range 1000 { // and never leaves the device
			second, err := important.Begin(t.Context(), iopolicy.Op{Certain: true})
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
			first.End(0)
			first = second
		}
		first.End(0)
		require.LessOrEqual(t, <-came, 25*time.Millisecond, "one operation in each period, however busy the device is")
	})
}
