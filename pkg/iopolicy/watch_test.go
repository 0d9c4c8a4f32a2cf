package iopolicy_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// witness is a Watcher that compares what the gate says of its own operations with what they say.
type witness struct {
	interval time.Duration

	running atomic.Int64
	ran     atomic.Uint64

	mu    sync.Mutex
	last  iopolicy.Moment
	then  uint64
	gaps  int
	alone int // looks while nothing was in flight
	lie   []string
}

func (w *witness) Interval() time.Duration { return w.interval }

func (w *witness) Look(m iopolicy.Moment) iopolicy.Sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	running, ran := w.running.Load(), w.ran.Load()
	if m.Inflight == 0 {
		w.alone++
	}
	for range 5 {
		runtime.Gosched() // lets another goroutine begin, if one could
	}
	if m.Inflight == 0 && w.ran.Load() != ran {
		w.lie = append(w.lie, "an operation began during a look")
	}
	switch gap := m.Inflight == 0 && w.last.Inflight == 0 && m.Begun == w.last.Begun; {
	case m.Inflight < int(running):
		w.lie = append(w.lie, fmt.Sprintf("%d in flight of %d", m.Inflight, running))
	case m.Begun < ran:
		w.lie = append(w.lie, fmt.Sprintf("%d begun of %d", m.Begun, ran))
	case gap && ran != w.then:
		w.lie = append(w.lie, "a gap in which something ran")
	case gap:
		w.gaps++
	}
	w.last, w.then = m, ran
	return iopolicy.Sighting{}
}

func (w *witness) lies() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lie
}

// TestNothingBeginsDuringAPoll: operations of several goroutines at full speed, and a watcher that looks all the time.
func TestNothingBeginsDuringAPoll(t *testing.T) {
	w := &witness{}
	settings := iopolicy.DefaultSettings()
	settings.PeriodHDD = [iopolicy.Tiers]time.Duration{} // no sleeps, however long operations take
	gate := iopolicy.New(iopolicy.Config{Settings: settings, Watcher: w})
	var all sync.WaitGroup
	for _, p := range []iopolicy.Policy{iopolicy.Throttle, iopolicy.Throttle, iopolicy.Important, iopolicy.Passive} {
		pass := gate.Pass(iopolicy.NewClient(p))
		all.Go(func() {
			for range 3000 {
				_, err := pass.Do(context.Background(), iopolicy.Op{}, func(int) (int, error) {
					w.running.Add(1)
					w.ran.Add(1)
					w.running.Add(-1)
					return 0, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Empty(t, w.lies())
	require.Greater(t, w.alone, 1000)
	require.EqualValues(t, 12000, gate.Stats().Operations)
}

// script is a Watcher that sees foreign I/O by a plan, as a counter of the device would show it.
type script struct {
	t        *testing.T
	interval time.Duration
	foreign  []time.Time // in order
	tier     iopolicy.Tier
	inflight bool
	looks    []iopolicy.Moment
}

func (s *script) Interval() time.Duration { return s.interval }

func (s *script) Look(m iopolicy.Moment) iopolicy.Sighting {
	require.False(s.t, m.At.After(time.Now()))
	s.looks = append(s.looks, m)
	var seen iopolicy.Sighting
	for len(s.foreign) > 0 && !s.foreign[0].After(time.Now()) {
		seen.Newest[s.tier] = time.Now() // when is not known, only that it was since the last look
		s.foreign = s.foreign[1:]
	}
	seen.Inflight[s.tier] = s.inflight
	return seen
}

// TestWatcherIsPolledAtBoundaries: at the first use, then as operations go on, but no more often than it likes.
func TestWatcherIsPolledAtBoundaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, interval: 5 * ms}
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: s})
		start := time.Now()
		for _, p := range []iopolicy.Policy{iopolicy.Important, iopolicy.Passive} {
			require.NoError(t, do(t.Context(), gate.Pass(iopolicy.NewClient(p)), transfer(), 20*ms))
		}
		require.Empty(t, s.looks, "nothing of tier 0 depends on it")
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		for range 20 {
			require.NoError(t, do(t.Context(), pass, transfer(), 2*ms))
		}
		var at []time.Duration
		for _, m := range s.looks {
			at = append(at, m.At.Sub(start)-40*ms)
		}
		require.Equal(t, []time.Duration{0, 6 * ms, 12 * ms, 18 * ms, 24 * ms, 30 * ms, 36 * ms}, at)
		require.Equal(t, 0, s.looks[0].Inflight, "at the beginning of an operation")
		time.Sleep(time.Hour)
		require.Len(t, s.looks, 7, "no look without an operation")
		require.NoError(t, do(t.Context(), pass, transfer(), 10*ms))
		require.Len(t, s.looks, 9, "before and after")
	})
}

// TestForeignIOOpensAWindow: it is noticed within one interval and one I/O, holds tier 3 back from then on, and is
// forgotten a window after it was last seen.
func TestForeignIOOpensAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &script{t: t, interval: 5 * ms}
		for at := 100 * ms; at <= 1100*ms; at += 50 * ms {
			s.foreign = append(s.foreign, start.Add(at))
		}
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Medium: iopolicy.SSD, Watcher: s})
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		var at []time.Duration
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		endless(ctx, pass, 2*ms, func() { at = append(at, time.Since(start)) })
		within := func(from, until time.Duration) (n int) {
			for _, one := range at {
				if one > from && one <= until {
					n++
				}
			}
			return n
		}
		require.Equal(t, 50, within(0, 100*ms), "full speed before")
		require.LessOrEqual(t, within(100*ms, 110*ms), 3, "yields within an interval and an I/O")
		require.Equal(t, 40, within(200*ms, 1200*ms), "one each period")
		require.Equal(t, 500, within(2*time.Second, 3*time.Second), "full speed after")
		require.LessOrEqual(t, within(1100*ms, 1600*ms), 21)
		require.Greater(t, within(1650*ms, 1750*ms), 45, "after a window and a period")
		require.Positive(t, gate.Stats().Windows[0])
	})
}

// TestEverySleepIsAGap: the watcher is polled when the last operation has ended and another sleeps, and again before
// the sleeper has its turn, so that it knows for certain that what happened in between was foreign.
func TestEverySleepIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, interval: time.Hour, inflight: true}
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: s})
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		start := time.Now()
		for range 3 {
			require.NoError(t, do(t.Context(), pass, transfer(), 10*ms))
		}
		require.Equal(t, 410*ms, time.Since(start))
		type look struct {
			at     time.Duration
			flying int
			begun  uint64
		}
		var looks []look
		for _, m := range s.looks {
			looks = append(looks, look{m.At.Sub(start), m.Inflight, m.Begun})
		}
		require.Equal(t, []look{{0, 0, 0}, {10 * ms, 0, 1}, {200 * ms, 0, 1}, {210 * ms, 0, 2}, {400 * ms, 0, 2}}, looks)
	})
	synctest.Test(t, func(t *testing.T) { // a gap also begins when another's operation ends
		s := &script{t: t, interval: time.Hour, inflight: true}
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: s})
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		require.NoError(t, do(t.Context(), pass, transfer(), 0))
		passive := gate.Pass(iopolicy.NewClient(iopolicy.Passive))
		var others [2]iopolicy.Grant
		for i := range others {
			var err error
			others[i], err = passive.Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Write})
			require.NoError(t, err)
		}
		go func() { _ = do(context.Background(), pass, transfer(), 0) }()
		synctest.Wait()
		require.Len(t, s.looks, 1)
		time.Sleep(30 * ms)
		others[0].End(1)
		require.Len(t, s.looks, 1, "one is drained on the device")
		time.Sleep(30 * ms)
		others[1].End(1)
		require.Len(t, s.looks, 2)
		require.Zero(t, s.looks[1].Inflight+s.looks[1].Writing)
		require.Zero(t, gate.Stats().Held)
		time.Sleep(time.Second)
		require.Equal(t, 140*ms, gate.Stats().Held)
		require.Len(t, s.looks, 3, "and before the turn")
	})
}

// TestForeignTiers: the tier of foreign I/O counts like the own tier.
func TestForeignTiers(t *testing.T) {
	for foreign := range iopolicy.Tier(iopolicy.Tiers) {
		for _, policy := range []iopolicy.Policy{iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle} {
			synctest.Test(t, func(t *testing.T) {
				s := &script{t: t, interval: ms, inflight: true, tier: foreign}
				gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: s})
				pass := gate.Pass(iopolicy.NewClient(policy))
				require.NoError(t, do(t.Context(), pass, transfer(), 0))
				start := time.Now()
				require.NoError(t, do(t.Context(), pass, transfer(), 0))
				require.Equal(t, foreign < policy.Tier(), time.Since(start) > 0)
			})
		}
	}
}

// clock is a Watcher with a wrong clock.
type clock struct{ off time.Duration }

func (clock) Interval() time.Duration { return time.Hour }

func (c clock) Look(iopolicy.Moment) iopolicy.Sighting {
	return iopolicy.Sighting{Newest: [iopolicy.Tiers]time.Time{time.Now().Add(c.off)}}
}

// TestFutureTimesCountAsNow: a wrong clock opens one window, not one for ever.
func TestFutureTimesCountAsNow(t *testing.T) {
	for off, want := range map[time.Duration]time.Duration{
		time.Hour: 500 * ms, 1000000 * time.Hour: 500 * ms, -100 * ms: 400 * ms, -1000000 * time.Hour: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: clock{off}})
			pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
			require.NoError(t, do(t.Context(), pass, iopolicy.Op{}, 0))
			start := time.Now()
			for pass.Bound() != 0 {
				time.Sleep(ms)
			}
			require.Equal(t, want, time.Since(start), "%v", off)
		})
	}
}

// bytesMeter counts what its operations add.
type bytesMeter struct{ sum iopolicy.Bytes }

func (m *bytesMeter) Submitted() iopolicy.Bytes { return m.sum }

// TestOnlyTheDeviceIsCharged: inside a window the meter decides; what a cache answers is free, however long it took.
func TestOnlyTheDeviceIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter := &bytesMeter{}
		gate, _, pass := inWindow(t, iopolicy.Config{Metering: iopolicy.Metering{Meter: meter}}, iopolicy.Throttle)
		start := time.Now()
		one := func(kind iopolicy.Kind, takes time.Duration, moved iopolicy.Bytes) {
			_, err := pass.Do(t.Context(), iopolicy.Op{Kind: kind}, func(bound int) (int, error) {
				require.Equal(t, 128<<10, bound)
				time.Sleep(takes)
				meter.sum.Read += moved.Read
				meter.sum.Written += moved.Written
				return 1, nil
			})
			require.NoError(t, err)
		}
		charged := gate.Stats().Charged
		for range 50 {
			one(iopolicy.Read, ms, iopolicy.Bytes{})
			one(iopolicy.Metadata, 0, iopolicy.Bytes{})
			one(iopolicy.Write, 0, iopolicy.Bytes{})
			one(iopolicy.Sync, 0, iopolicy.Bytes{})
		}
		require.Equal(t, charged, gate.Stats().Charged)
		require.Equal(t, 250*ms, time.Since(start), "200 until the first turn, and what the operations took")
		one(iopolicy.Read, ms, iopolicy.Bytes{Read: 4096}) // issued at 250
		one(iopolicy.Write, 0, iopolicy.Bytes{Written: 4096})
		require.Equal(t, 450*ms, time.Since(start))
		one(iopolicy.Sync, ms, iopolicy.Bytes{})
		one(iopolicy.Metadata, ms, iopolicy.Bytes{Read: 512})
		require.Equal(t, 851*ms, time.Since(start))
		require.Equal(t, charged+4, gate.Stats().Charged)
	})
}

// TestAttribute: with it, the watcher counts all bytes of this gate as soon as their operations have ended.
func TestAttribute(t *testing.T) {
	for _, attribute := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			meter, s := &bytesMeter{}, &script{t: t}
			gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: s,
				Metering: iopolicy.Metering{Meter: meter, Attribute: attribute}})
			for p := iopolicy.Important; p <= iopolicy.Passive; p++ {
				_, err := gate.Pass(iopolicy.NewClient(p)).Do(t.Context(), iopolicy.Op{}, func(int) (int, error) {
					time.Sleep(ms)
					meter.sum.Read += 1000
					return 0, nil
				})
				require.NoError(t, err)
				meter.sum.Read += 7 // of other operations
				time.Sleep(time.Second)
			}
			var want iopolicy.Bytes
			if attribute {
				want.Read = 5000
			}
			require.NoError(t, do(t.Context(), gate.Pass(iopolicy.NewClient(iopolicy.Standard)),
				iopolicy.Op{Kind: iopolicy.Sync}, 0))
			last := s.looks[len(s.looks)-1]
			require.Equal(t, want, last.Own)
			require.EqualValues(t, 6, last.Begun)
			require.EqualValues(t, 1, last.Wrote)
			require.Zero(t, last.Writing)
		})
	}
}

// fakePeers is what processes share, in memory.
type fakePeers struct {
	mu     sync.Mutex
	newest [iopolicy.Tiers]time.Time
	flying [iopolicy.Tiers]int
	slot   time.Time // the last that was claimed
}

func (p *fakePeers) Publish(t iopolicy.Tier, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest[t] = at
}

func (p *fakePeers) add(t iopolicy.Tier, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying[t] += n
}

func (p *fakePeers) Enter(t iopolicy.Tier) { p.add(t, 1) }
func (p *fakePeers) Leave(t iopolicy.Tier) { p.add(t, -1) }

func (p *fakePeers) Seen() iopolicy.Sighting {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := iopolicy.Sighting{Newest: p.newest}
	for t, n := range p.flying {
		s.Inflight[t] = n > 0
	}
	return s
}

func (p *fakePeers) Claim(_ iopolicy.Tier, now time.Time, period time.Duration) (bool, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := p.slot.Add(period); now.Before(next) {
		return false, next
	}
	p.slot = now
	return true, time.Time{}
}

// TestPeersYield: two processes at tiers 1 and 3 on one device behave like two clients of one gate.
func TestPeersYield(t *testing.T) {
	run := func(t *testing.T, gates ...*iopolicy.Gate) (at [2][]time.Duration) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			endless(ctx, gates[1].Pass(iopolicy.NewClient(iopolicy.Throttle)), 3*ms,
				func() { at[1] = append(at[1], time.Since(start)) })
		})
		synctest.Wait()
		time.Sleep(1001 * ms)
		standard := gates[0].Pass(iopolicy.NewClient(iopolicy.Standard))
		for range 100 {
			require.NoError(t, do(ctx, standard, transfer(), 7*ms))
			at[0] = append(at[0], time.Since(start))
		}
		all.Wait()
		return at
	}
	var one, two [2][]time.Duration
	synctest.Test(t, func(t *testing.T) {
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
		one = run(t, gate, gate)
	})
	synctest.Test(t, func(t *testing.T) {
		cfg := iopolicy.Config{Settings: iopolicy.DefaultSettings(), Peers: &fakePeers{}}
		two = run(t, iopolicy.New(cfg), iopolicy.New(cfg))
	})
	require.Equal(t, one, two)
	require.Less(t, len(one[1]), 1100, "the lower one did yield")
}

// TestPeersShareSlots: processes of one tier together do one I/O each period, and none of them starves.
func TestPeersShareSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := &fakePeers{}
		cfg := iopolicy.Config{Settings: iopolicy.DefaultSettings(), Peers: peers}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { endless(ctx, iopolicy.New(cfg).Pass(iopolicy.NewClient(iopolicy.Important)), ms, nil) })
		synctest.Wait()
		var n [3]int
		for i := range n {
			all.Go(func() {
				endless(ctx, iopolicy.New(cfg).Pass(iopolicy.NewClient(iopolicy.Throttle)), 3*ms, func() { n[i]++ })
			})
		}
		all.Wait()
		require.InDelta(t, 500, n[0]+n[1]+n[2], 5)
		for i := range n {
			require.Positive(t, n[i])
		}
	})
}

// liar is a peer that never releases a slot, or reports nonsense.
type liar struct {
	fakePeers
	next  time.Duration
	asked int
}

func (l *liar) Claim(_ iopolicy.Tier, now time.Time, _ time.Duration) (bool, time.Time) {
	l.asked++
	return false, now.Add(l.next)
}

// TestHostilePeers: whatever they say about the next slot, they are asked again neither in a circle nor too late.
func TestHostilePeers(t *testing.T) {
	for next, want := range map[time.Duration]int{-time.Hour: 800, 0: 800, 50 * ms: 16, 1000 * time.Hour: 4} {
		synctest.Test(t, func(t *testing.T) {
			peers := &liar{next: next}
			_, _, pass := inWindow(t, iopolicy.Config{Peers: peers}, iopolicy.Throttle)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			require.ErrorIs(t, do(ctx, pass, transfer(), 0), context.DeadlineExceeded)
			require.InDelta(t, want, peers.asked, 1, "%v", next)
		})
	}
}
