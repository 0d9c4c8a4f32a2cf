package iopolicy_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// busyDisk is a device that others use with a rate of I/Os a second, spread at random, and that counts them in gaps.
type busyDisk struct {
	mu   sync.Mutex
	rate float64
	rand *rand.Rand
	last iopolicy.Moment
}

func (d *busyDisk) Interval() time.Duration { return 5 * ms }

func (d *busyDisk) set(rate float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rate = rate
}

func (d *busyDisk) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rate > 0 {
		s.Newest[0] = m.At
	}
	if m.Inflight == 0 && d.last.Inflight == 0 && m.Begun == d.last.Begun {
		s.Gap = m.At.Sub(d.last.At)
		n := d.rate * s.Gap.Seconds()
		s.IOs = uint64(n)
		if d.rand.Float64() < n-float64(s.IOs) {
			s.IOs++
		}
	}
	d.last = m
	return s
}

// load is a job whose workers read without a pause; each request keeps the device busy for took.
type load struct {
	pass     *iopolicy.Pass
	op       iopolicy.Op
	took     time.Duration
	inflight atomic.Int64
	most     atomic.Int64
	busy     atomic.Int64 // ns in which at least one operation was in flight
	done     atomic.Int64
	since    time.Time
	mu       sync.Mutex
}

func (l *load) step(by int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inflight.Load() > 0 {
		l.busy.Add(int64(time.Since(l.since)))
	}
	l.since = time.Now()
	l.most.Store(max(l.most.Load(), l.inflight.Add(by)))
}

func (l *load) run(t *testing.T, workers int, during time.Duration) {
	t.Helper()
	end := time.Now().Add(during)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for time.Now().Before(end) {
				g, err := l.pass.Begin(t.Context(), l.op)
				if err != nil {
					t.Error(err)
					return
				}
				l.step(1)
				time.Sleep(l.took)
				l.step(-1)
				l.done.Add(1)
				g.End(l.op.Bytes)
			}
		})
	}
	wg.Wait()
}

func (l *load) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy.Store(0)
	l.done.Store(0)
	l.most.Store(0)
}

// budgeted is a gate of a disk that others use, and a load on it.
func budgeted(rate, impact float64, m iopolicy.Medium, p iopolicy.Policy) (*busyDisk, *iopolicy.Gate, *load) {
	disk := &busyDisk{rate: rate, rand: rand.New(rand.NewPCG(1, 2))}
	set := iopolicy.DefaultSettings()
	set.MaxImpact = impact
	gate := iopolicy.New(iopolicy.Config{Medium: m, Settings: set, Watcher: disk})
	read := iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096, Certain: true}
	return disk, gate, &load{pass: gate.Pass(iopolicy.NewClient(p)), op: read, took: 28 * time.Microsecond}
}

// TestSlotGrantFollowsTheRateOfOthers: the part of the time in which the job is at the device is at most the impact,
// divided by what others lose of it, and at most four fifths; and never more is in flight than may hold up one I/O of
// others.
func TestSlotGrantFollowsTheRateOfOthers(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, c := range map[string]struct {
		rate        float64
		policy      iopolicy.Policy
		medium      iopolicy.Medium
		took        time.Duration
		least, most float64 // part of the time
		depth       int64
	}{
		"3 a second":                {3, iopolicy.Throttle, iopolicy.SSD, 28 * time.Microsecond, 0.65, 0.81, 53},
		"50 a second":               {50, iopolicy.Throttle, iopolicy.SSD, 28 * time.Microsecond, 0.65, 0.81, 53},
		"200 a second":              {200, iopolicy.Throttle, iopolicy.SSD, 28 * time.Microsecond, 0.55, 0.81, 16},
		"500 a second":              {500, iopolicy.Throttle, iopolicy.SSD, 28 * time.Microsecond, 0.20, 0.37, 16},
		"without a pause":           {20000, iopolicy.Throttle, iopolicy.SSD, 28 * time.Microsecond, 0.035, 0.06, 3},
		"utility, without a pause":  {20000, iopolicy.Utility, iopolicy.SSD, 28 * time.Microsecond, 0.035, 0.06, 3},
		"standard, without a pause": {20000, iopolicy.Standard, iopolicy.SSD, 28 * time.Microsecond, 0.035, 0.08, 3},
		"an arm, without a pause":   {100, iopolicy.Throttle, iopolicy.HDD, 13 * ms, 0.035, 0.065, 1},
		"an arm, 3 a second":        {3, iopolicy.Throttle, iopolicy.HDD, 8 * ms, 0.60, 0.85, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, gate, l := budgeted(c.rate, 0.05, c.medium, c.policy)
				l.took = c.took
				require.Equal(t, 1.0, gate.Share(), "no window")
				workers, few := 64, 4
				if c.medium == iopolicy.HDD {
					workers, few = 16, 16
				}
				l.run(t, few, 2*time.Second) // until the rate is known
				l.reset()
				over := time.Second
				if c.medium == iopolicy.HDD { // few requests, and each takes long; the first of each worker wait for nothing
					over = 16 * time.Second
				}
				l.run(t, workers, over)
				part := time.Duration(l.busy.Load()).Seconds() / over.Seconds()
				require.GreaterOrEqual(t, part, c.least)
				require.LessOrEqual(t, part, c.most)
				require.LessOrEqual(t, l.most.Load(), c.depth)
				s := gate.Stats()
				require.InEpsilon(t, c.rate, s.Rate, 0.5)
				require.LessOrEqual(t, s.Lost.Seconds()/s.Engaged.Seconds(), 0.08)
				require.GreaterOrEqual(t, gate.Share(), c.least)
				require.LessOrEqual(t, gate.Share(), c.most)
				gate.SetMaxImpact(0)
				require.Equal(t, 1.0, gate.Share(), "a slot grant is one operation")
				gate.SetMaxImpact(0.05)
				disk.set(0)
				l.run(t, few, time.Second)
				require.Equal(t, 1.0, gate.Share(), "the window has closed")
			})
		})
	}
}

// TestMinimumRate: however slow each request is beside others, a job gets its requests in each turn.
func TestMinimumRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, l := budgeted(20000, 0.05, iopolicy.SSD, iopolicy.Throttle)
		l.took = 900 * time.Microsecond
		l.run(t, 16, 10*time.Second)
		require.GreaterOrEqual(t, l.done.Load(), int64(10*300))
	})
}

// TestMinimumRateCountsLargeRequestsAsSeveral: a request of 128 KiB occupies the device for as long as a dozen small
// ones, so a number of requests in each period would exceed the impact beside others that never pause.
func TestMinimumRateCountsLargeRequestsAsSeveral(t *testing.T) {
	for _, policy := range []iopolicy.Policy{iopolicy.Utility, iopolicy.Throttle} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, l := budgeted(20000, 0.05, iopolicy.SSD, policy)
				l.op, l.took = iopolicy.Op{Kind: iopolicy.Write, Bytes: 128 << 10, Certain: true}, 280*time.Microsecond
				l.run(t, 4, time.Second)
				l.reset()
				l.run(t, 4, 4*time.Second)
				require.InDelta(t, 0.05, time.Duration(l.busy.Load()).Seconds()/4, 0.015)
			})
		})
	}
}

// TestFlushesAreCharged: the device time of flushes counts in full, so that the job as a whole stays within the impact.
func TestFlushesAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, gate, l := budgeted(20000, 0.05, iopolicy.SSD, iopolicy.Utility)
		l.op, l.took = iopolicy.Op{Kind: iopolicy.Write, Bytes: 128 << 10, Certain: true}, 280*time.Microsecond
		flush := &load{pass: gate.Pass(iopolicy.NewClient(iopolicy.Utility)), took: 4 * ms}
		flush.op = iopolicy.Op{Kind: iopolicy.Sync, Certain: true}
		l.run(t, 4, time.Second)
		l.reset()
		for range 8 {
			l.run(t, 2, time.Second/2)
			flush.run(t, 1, time.Nanosecond)
		}
		busy := time.Duration(l.busy.Load()+flush.busy.Load()).Seconds() / 4
		require.InDelta(t, 0.05, busy, 0.02)
	})
}

// TestSlotGrantShrinksAtOnce: a foreground that starts and stops every second finds a short turn within two periods.
func TestSlotGrantShrinksAtOnce(t *testing.T) {
	slow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, gate, l := budgeted(3, 0.05, iopolicy.SSD, iopolicy.Throttle)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 5 {
				disk.set(3)
				time.Sleep(time.Second)
				disk.set(20000)
				time.Sleep(60 * ms)
				require.LessOrEqual(t, gate.Stats().Budget, 1300*time.Microsecond)
				time.Sleep(940 * ms)
			}
		}()
		l.run(t, 16, 10*time.Second)
		<-done
	})
}

// TestSlotGrantBeforeTheRateIsKnown: until others have been counted they may use the device without a pause.
func TestSlotGrantBeforeTheRateIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, gate, l := budgeted(3, 0.05, iopolicy.SSD, iopolicy.Throttle)
		require.Equal(t, 1250*time.Microsecond, gate.Stats().Budget)
		l.run(t, 4, 200*ms)
		require.Equal(t, 20*ms, gate.Stats().Budget)
	})
}

// TestLongFlushIsADebt: what an operation took beyond its turn is taken off the next ones.
func TestLongFlushIsADebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, l := budgeted(20000, 0.05, iopolicy.SSD, iopolicy.Throttle)
		l.run(t, 4, time.Second)
		g, err := l.pass.Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Sync, Certain: true})
		require.NoError(t, err)
		time.Sleep(20 * ms)
		g.End(0)
		l.reset()
		l.run(t, 4, 50*ms)
		require.LessOrEqual(t, l.done.Load(), int64(2*20), "the turns after it are for the floor only")
	})
}

// TestImpactChangesWhileItRuns: 0 is one I/O in each period, as the kernel has it.
func TestImpactChangesWhileItRuns(t *testing.T) {
	slow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, gate, l := budgeted(50, 0.05, iopolicy.SSD, iopolicy.Throttle)
		l.run(t, 16, 2*time.Second)
		gate.SetMaxImpact(0)
		l.run(t, 16, time.Second)
		l.reset()
		l.run(t, 16, 4*time.Second)
		require.InDelta(t, 160, l.done.Load(), 20)
		require.Zero(t, gate.Stats().Impact)
		gate.SetMaxImpact(0.05)
		l.run(t, 16, time.Second)
		l.reset()
		l.run(t, 16, time.Second)
		require.Greater(t, l.done.Load(), int64(5000))
	})
}

// TestAFlushIsAloneBesideRareReads: however much may be in flight beside others, nothing is in flight beside a flush.
func TestAFlushIsAloneBesideRareReads(t *testing.T) {
	testkit.Slow(t)
	synctest.Test(t, func(t *testing.T) {
		_, gate, l := budgeted(3, 0.05, iopolicy.SSD, iopolicy.Throttle)
		l.run(t, 4, 2*time.Second) // until the rate is known
		flush := iopolicy.Op{Kind: iopolicy.Sync, Certain: true}
		read := iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096, Certain: true}
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		var flushing, reading atomic.Int32
		var beside, flushes atomic.Int32
		end := time.Now().Add(time.Second)
		var all sync.WaitGroup
		for i := range 17 {
			op, own, other, took := read, &reading, &flushing, 28*time.Microsecond
			if i == 0 {
				op, own, other, took = flush, &flushing, &reading, ms
			}
			all.Go(func() {
				for time.Now().Before(end) {
					_, err := pass.Do(t.Context(), op, func(int) (int, error) {
						own.Add(1)
						defer own.Add(-1)
						if other.Load() > 0 && gate.Share() < 1 {
							beside.Add(1)
						}
						time.Sleep(took)
						if i == 0 {
							flushes.Add(1)
						}
						return op.Bytes, nil
					})
					if err != nil {
						return
					}
				}
			})
		}
		all.Wait()
		require.Greater(t, flushes.Load(), int32(5))
		require.Zero(t, beside.Load())
	})
}
