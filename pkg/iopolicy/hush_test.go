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
	foreign       func() bool // somebody else is at the device
	last          iopolicy.Moment
	gaps          []time.Duration
}

func (d *deaf) Interval() time.Duration { return 5 * time.Millisecond }

func (d *deaf) NeedsGaps() (every, length time.Duration) { return d.every, d.length }

func (d *deaf) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	if m.Inflight == 0 && d.last.Inflight == 0 && m.Begun == d.last.Begun && !d.last.At.IsZero() {
		d.gaps = append(d.gaps, m.At.Sub(d.last.At))
		if d.foreign() {
			s.Newest[0] = m.At
		}
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

func TestGapsAreMadeForAWatcherThatNeedsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: 200 * time.Millisecond, length: 5 * time.Millisecond, foreign: func() bool { return false }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default(), Watcher: w, Medium: iopolicy.SSD})
		n := busy(g, iopolicy.Throttle, 3, 10*time.Second)
		require.GreaterOrEqual(t, len(w.gaps), 40, "one in every 210 ms or so")
		for _, gap := range w.gaps {
			require.Equal(t, w.length, gap)
		}
		require.GreaterOrEqual(t, n, 3*5000*94/100, "the price is some five in a hundred")
	})
}

func TestWhoIsHeardInAGapIsGivenWayTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: 200 * time.Millisecond, length: 5 * time.Millisecond, foreign: func() bool { return true }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default(), Watcher: w, Medium: iopolicy.SSD})
		n := busy(g, iopolicy.Throttle, 3, 10*time.Second)
		full := 3 * 230 / 2                   // until the first gap ends
		require.Less(t, n, full+10*1000/25+3) // then one in each period
		require.Greater(t, n, 10*1000/25*9/10)
	})
}

func TestNobodyImportantIsHushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: 200 * time.Millisecond, length: 5 * time.Millisecond, foreign: func() bool { return false }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default(), Watcher: w, Medium: iopolicy.SSD})
		require.Equal(t, 5000, busy(g, iopolicy.Important, 1, 10*time.Second-time.Millisecond))
		require.Empty(t, w.gaps)
	})
}

func TestAHushEndsWithTheContextOfWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{every: time.Millisecond, length: time.Hour, foreign: func() bool { return false }}
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default(), Watcher: w, Medium: iopolicy.SSD})
		start := time.Now()
		require.Less(t, busy(g, iopolicy.Throttle, 3, time.Second), 100)
		require.Equal(t, time.Second, time.Since(start))
		// Somebody important is not concerned, and shutting and opening does not end it.
		g.Shut()
		g.Open()
		require.Positive(t, busy(g, iopolicy.Important, 1, time.Second))
		require.Zero(t, busy(g, iopolicy.Throttle, 1, time.Second))
	})
}
