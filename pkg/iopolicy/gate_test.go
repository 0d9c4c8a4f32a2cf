package iopolicy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const ms = time.Millisecond

// transfer is one read of a size that is known to come from the device.
func transfer() iopolicy.Op { return iopolicy.Op{Kind: iopolicy.Read, Bytes: 1 << 17, Certain: true} }

// do does one operation that takes a while.
func do(ctx context.Context, p *iopolicy.Pass, op iopolicy.Op, takes time.Duration) error {
	_, err := p.Do(ctx, op, func(int) (int, error) {
		time.Sleep(takes)
		return op.Bytes, nil
	})
	return err
}

// endless does one operation after the other until its context ends.
func endless(ctx context.Context, p *iopolicy.Pass, takes time.Duration, each func()) {
	for do(ctx, p, transfer(), takes) == nil {
		if each != nil {
			each()
		}
	}
}

// TestArithmetic: beside endless better I/O a tier does exactly one I/O each period, however many ask for it.
func TestArithmetic(t *testing.T) {
	for _, c := range []struct {
		policy iopolicy.Policy
		medium iopolicy.Medium
		per    time.Duration
		want   int
	}{
		{iopolicy.Standard, iopolicy.HDD, 20 * time.Second, 500},
		{iopolicy.Standard, iopolicy.SSD, 20 * time.Second, 4000},
		{iopolicy.Utility, iopolicy.HDD, 17 * time.Second, 200},
		{iopolicy.Utility, iopolicy.SSD, 15 * time.Second, 1000},
		{iopolicy.Throttle, iopolicy.HDD, 100 * time.Second, 500},
		{iopolicy.Throttle, iopolicy.SSD, 20 * time.Second, 800},
	} {
		for _, workers := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s/%s/%d", c.policy, c.medium, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Medium: c.medium})
					pass := gate.Pass(iopolicy.NewClient(c.policy))
					ctx, cancel := context.WithTimeout(context.Background(), c.per-ms)
					defer cancel()
					var all sync.WaitGroup
					all.Go(func() { endless(ctx, gate.Pass(iopolicy.NewClient(iopolicy.Important)), ms, nil) })
					synctest.Wait()
					var n atomic.Int64
					for range workers {
						all.Go(func() { endless(ctx, pass, 3*ms, func() { n.Add(1) }) })
					}
					all.Wait()
					require.EqualValues(t, c.want, n.Load())
					require.False(t, gate.Armed())
				})
			})
		}
	}
}

// inWindow returns a gate with an important operation on the device, and a client's pass that has been charged.
func inWindow(t *testing.T, cfg iopolicy.Config, policy iopolicy.Policy) (gate *iopolicy.Gate, c *iopolicy.Client,
	pass *iopolicy.Pass) {
	cfg.Settings = iopolicy.DefaultSettings()
	gate = iopolicy.New(cfg)
	c = iopolicy.NewClient(policy)
	pass = gate.Pass(c)
	require.NoError(t, do(t.Context(), pass, transfer(), 0))
	held, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), transfer())
	require.NoError(t, err)
	t.Cleanup(func() { held.End(0) })
	return gate, c, pass
}

// TestCancelledWait: a cancelled operation does no I/O and leaves nothing behind; others keep their turn.
func TestCancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, _, pass := inWindow(t, iopolicy.Config{}, iopolicy.Throttle)
		start := time.Now()
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		err := make(chan error)
		for range 2 {
			go func() { err <- do(ctx, pass, transfer(), 0) }()
		}
		synctest.Wait()
		other := make(chan time.Duration)
		go func() {
			_ = do(context.Background(), pass, transfer(), 0)
			other <- time.Since(start)
		}()
		time.Sleep(50 * ms)
		require.True(t, gate.Armed())
		cancel(why)
		require.ErrorIs(t, <-err, why)
		require.ErrorIs(t, <-err, why)
		require.Equal(t, 50*ms, time.Since(start))
		require.Equal(t, 200*ms, <-other)
		require.False(t, gate.Armed())

		ctx, stop := context.WithTimeout(context.Background(), 50*ms)
		defer stop()
		require.ErrorIs(t, do(ctx, pass, transfer(), 0), context.DeadlineExceeded)
		require.False(t, gate.Armed(), "no timer is left")
		stats := gate.Stats()
		require.EqualValues(t, 3, stats.Operations, "two of the pass and the important one")
		require.Equal(t, 350*ms, stats.Asleep[3])
		require.Zero(t, stats.Held, "the important operation was on the device")
		_, beginErr := pass.Begin(ctx, iopolicy.Op{})
		require.ErrorIs(t, beginErr, context.DeadlineExceeded)
	})
}

// TestSetPolicyWakes: sleepers are re-evaluated before SetPolicy returns.
func TestSetPolicyWakes(t *testing.T) {
	for policy, want := range map[iopolicy.Policy]time.Duration{
		iopolicy.Important: 20 * ms, iopolicy.Passive: 20 * ms, iopolicy.Throttle: 200 * ms,
		// A tier that has done no I/O here has its turn at once.
		iopolicy.Standard: 20 * ms, iopolicy.Utility: 20 * ms,
	} {
		synctest.Test(t, func(t *testing.T) {
			gate, c, pass := inWindow(t, iopolicy.Config{}, iopolicy.Throttle)
			start := time.Now()
			done := make(chan time.Duration)
			go func() {
				_ = do(context.Background(), pass, transfer(), 0)
				done <- time.Since(start)
			}()
			time.Sleep(20 * ms)
			c.SetPolicy(policy)
			if policy.Tier() == 0 {
				require.EqualValues(t, 3, gate.Stats().Operations)
			}
			require.Equal(t, want, <-done, "%s", policy)
		})
	}
}

// ended is a context that has ended by Err and not yet by Done.
type ended struct {
	context.Context
	err  atomic.Bool
	done chan struct{}
}

func (e *ended) Done() <-chan struct{} { return e.done }

func (e *ended) Err() error {
	if e.err.Load() {
		return context.Canceled
	}
	return nil
}

// TestNoSlotForACancelledWaiter: a turn that comes between the end of a sleeper's context and its waking goes to the
// next.
func TestNoSlotForACancelledWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, _, pass := inWindow(t, iopolicy.Config{}, iopolicy.Throttle)
		start := time.Now()
		ctx := &ended{Context: context.Background(), done: make(chan struct{})}
		first, second := make(chan error), make(chan time.Duration)
		go func() { first <- do(ctx, pass, transfer(), 0) }()
		synctest.Wait()
		go func() {
			_ = do(context.Background(), pass, transfer(), 0)
			second <- time.Since(start)
		}()
		time.Sleep(100 * ms)
		ctx.err.Store(true)
		require.Equal(t, 200*ms, <-second)
		time.Sleep(50 * ms)
		close(ctx.done)
		require.ErrorIs(t, <-first, context.Canceled)
		require.EqualValues(t, 3, gate.Stats().Operations)
	})
}

// TestShut: a shut gate admits no operation of any policy.
func TestShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
		gate.Shut()
		gate.Shut()
		var mu sync.Mutex
		var order []iopolicy.Policy
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error)
		go func() { gone <- do(ctx, gate.Pass(iopolicy.NewClient(iopolicy.Important)), transfer(), 0) }()
		for p := iopolicy.Important; p <= iopolicy.Passive; p++ {
			pass := gate.Pass(iopolicy.NewClient(p))
			go func() {
				_ = do(context.Background(), pass, iopolicy.Op{}, 0)
				mu.Lock()
				order = append(order, p)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		require.Empty(t, order)
		require.Zero(t, gate.Stats().Operations)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		gate.Open()
		gate.Open()
		synctest.Wait()
		require.Len(t, order, 5)
		require.EqualValues(t, 5, gate.Stats().Operations)
		require.Zero(t, gate.Stats().Asleep, "a pause is not sleep")
	})
}

// TestStats counts a scene that fits on a page.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := iopolicy.New(iopolicy.Config{Name: "sda", Settings: iopolicy.DefaultSettings(), Medium: iopolicy.SSD})
		c := iopolicy.NewClient(iopolicy.Throttle)
		pass := gate.Pass(c)
		important := gate.Pass(iopolicy.NewClient(iopolicy.Important))
		ctx := t.Context()
		require.NoError(t, do(ctx, pass, iopolicy.Op{Kind: iopolicy.Write, Bytes: 10}, ms)) // 0-1 ms, charged to 0
		require.NoError(t, do(ctx, pass, iopolicy.Op{Bytes: 5}, 0))                         // cached
		require.NoError(t, do(ctx, important, transfer(), 9*ms))                            // 1-10 ms
		require.Equal(t, iopolicy.Waiting, gate.Stats().State)
		require.NoError(t, do(ctx, pass, transfer(), 5*ms)) // sleeps until 25, ends at 30
		stats := gate.Stats()
		require.Equal(t, iopolicy.Stats{
			Name: "sda", Medium: iopolicy.SSD, State: iopolicy.Waiting, Operations: 4, Charged: 2,
			Moved:  iopolicy.Bytes{Read: 5 + 2<<17, Written: 10},
			Asleep: [iopolicy.Tiers]time.Duration{3: 15 * ms}, Held: 15 * ms, Engaged: 29 * ms,
			Windows: [iopolicy.Tiers]uint64{0: 1},
		}, stats)
		time.Sleep(time.Second)
		stats = gate.Stats()
		require.Equal(t, iopolicy.Disengaged, stats.State)
		require.Equal(t, 509*ms, stats.Engaged, "from 1 to 510 ms")
		held, err := important.Begin(ctx, transfer())
		require.NoError(t, err)
		require.EqualValues(t, 2, gate.Stats().Windows[0], "at the beginning of what is certain")
		held.End(1)
		require.NoError(t, do(ctx, important, transfer(), ms))
		require.EqualValues(t, 2, gate.Stats().Windows[0], "one window, though two opened it")
		c.SetPolicy(iopolicy.Utility)
		require.Equal(t, "sda", gate.Name())
		require.Same(t, gate, pass.Gate())
		require.Same(t, c, pass.Client())
	})
}

// TestDisabled: no operation waits, and all are counted.
func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := iopolicy.DefaultSettings()
		settings.Enabled = false
		gate := iopolicy.New(iopolicy.Config{Settings: settings, Watcher: &script{t: t}})
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		start := time.Now()
		held, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), transfer())
		require.NoError(t, err)
		for range 100 {
			g, err := pass.Begin(t.Context(), transfer())
			require.NoError(t, err)
			require.Zero(t, g.Max)
			require.Zero(t, pass.Bound())
			g.End(1)
		}
		held.End(1)
		require.Zero(t, time.Since(start))
		stats := gate.Stats()
		require.EqualValues(t, 101, stats.Operations)
		require.Zero(t, stats.Engaged)
		require.Equal(t, iopolicy.Disengaged, stats.State)
	})
}

// TestNilPass admits everything at once, but for a context that has ended.
func TestNilPass(t *testing.T) {
	var gate *iopolicy.Gate
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
	require.Nil(t, pass)
	require.Nil(t, pass.Gate())
	require.Nil(t, pass.Client())
	require.Zero(t, pass.Bound())
	n, err := pass.Do(t.Context(), iopolicy.Op{}, func(bound int) (int, error) { return 7 + bound, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pass.Begin(ctx, iopolicy.Op{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestDoEndsAfterAPanic: otherwise a window would stay open for ever.
func TestDoEndsAfterAPanic(t *testing.T) {
	gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Important))
	require.Panics(t, func() {
		_, _ = pass.Do(t.Context(), iopolicy.Op{}, func(int) (int, error) { panic("no") })
	})
	require.Zero(t, gate.Flying())
}

// quietWatcher never sees anything.
type quietWatcher struct{}

func (quietWatcher) Look(iopolicy.Moment) iopolicy.Sighting { return iopolicy.Sighting{} }
func (quietWatcher) Interval() time.Duration                { return 5 * time.Millisecond }

// pair is one operation that does nothing.
func pair(ctx context.Context, p *iopolicy.Pass) error {
	g, err := p.Begin(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096})
	if err != nil {
		return err
	}
	g.End(4096)
	return nil
}

type nothing struct{}

func (nothing) Submitted() iopolicy.Bytes { return iopolicy.Bytes{} }

// TestNothingIsAllocated at full speed, nor for what a cache answers inside a window.
func TestNothingIsAllocated(t *testing.T) {
	gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(),
		Metering: iopolicy.Metering{Meter: nothing{}}, Watcher: quietWatcher{}})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
	one := func() { require.NoError(t, pair(t.Context(), pass)) }
	require.Zero(t, testing.AllocsPerRun(1000, one))
	held, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), transfer())
	require.NoError(t, err)
	defer held.End(0)
	require.Less(t, testing.AllocsPerRun(1000, one), 1.0, "but for what the collector takes from the pool")
}

// TestHammer: many clients of all policies, which change, cancel, shut and open, at the same time. At the end nothing
// is on the device, no operation sleeps and no timer runs.
func TestHammer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{interval: 3 * ms}
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: w,
			Metering: iopolicy.Metering{Meter: nothing{}}, Peers: &fakePeers{}})
		var clients []*iopolicy.Client
		for p := iopolicy.Important; p <= iopolicy.Passive; p++ {
			clients = append(clients, iopolicy.NewClient(p))
		}
		var workers sync.WaitGroup
		for i := range 20 {
			pass := gate.Pass(clients[i%len(clients)])
			workers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				for range 200 {
					op := iopolicy.Op{Kind: iopolicy.Kind(r.IntN(4)), Certain: r.IntN(3) == 0}
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(2000))*ms)
					_, _ = pass.Do(ctx, op, func(int) (int, error) {
						w.running.Add(1)
						w.ran.Add(1)
						time.Sleep(time.Duration(r.IntN(3)) * ms)
						w.running.Add(-1)
						return 1, nil
					})
					cancel()
				}
			})
		}
		stop := make(chan struct{})
		go func() {
			r := rand.New(rand.NewPCG(7, 7))
			for {
				select {
				case <-stop:
					gate.Open()
					return
				case <-time.After(time.Duration(r.IntN(40)) * ms):
				}
				switch r.IntN(8) {
				case 0:
					gate.Shut()
				case 1, 2:
					gate.Open()
				case 3:
					gate.SetMedium(iopolicy.Medium(r.IntN(2)))
				default:
					clients[r.IntN(len(clients))].SetPolicy(iopolicy.Policy(r.IntN(5)))
				}
				_ = gate.Stats()
			}
		}()
		workers.Wait()
		close(stop)
		synctest.Wait()
		require.Zero(t, gate.Flying())
		require.False(t, gate.Armed())
		stats := gate.Stats()
		require.Equal(t, w.ran.Load(), stats.Operations)
		require.Positive(t, stats.Asleep[3])
		require.Empty(t, w.lies())
		require.Positive(t, w.gaps)
	})
}

// TestChangedPolicyGoesFirst: sleepers with a changed policy come before those of their new tier, in their old order.
func TestChangedPolicyGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
		c := iopolicy.NewClient(iopolicy.Throttle)
		throttle, utility := gate.Pass(c), gate.Pass(iopolicy.NewClient(iopolicy.Utility))
		require.NoError(t, do(t.Context(), throttle, transfer(), 0)) // both tiers are charged before the window opens
		require.NoError(t, do(t.Context(), utility, transfer(), 0))
		held, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), transfer())
		require.NoError(t, err)
		var mu sync.Mutex
		var order []string
		for _, one := range []struct {
			name string
			pass *iopolicy.Pass
		}{{"utility 1", utility}, {"throttle 1", throttle}, {"utility 2", utility}, {"throttle 2", throttle}} {
			go func() {
				_ = do(context.Background(), one.pass, transfer(), 0)
				mu.Lock()
				order = append(order, one.name)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		require.Empty(t, order)
		c.SetPolicy(iopolicy.Utility)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"throttle 1", "throttle 2", "utility 1", "utility 2"}, order)
		held.End(0)
	})
}
