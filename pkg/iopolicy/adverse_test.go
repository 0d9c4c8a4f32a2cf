package iopolicy_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// These tests hold properties that feedback controllers lose: each lets the watcher report I/O of others that depends
// on what the job itself did. A slot grant must neither grow nor oscillate, and the minimum rate must hold.

// reactive is a Watcher with a foreign I/O rate that is a function of the job's own share of the time.
type reactive struct {
	job    *load
	others func(share float64) (rate float64) // I/Os a second

	mu    sync.Mutex
	last  iopolicy.Moment
	busy  time.Duration
	at    time.Time
	share float64
	rest  float64
}

func (r *reactive) Interval() time.Duration { return 5 * ms }

func (r *reactive) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Newest[0] = m.At
	if passed := m.At.Sub(r.at); passed > 100*ms {
		busy := time.Duration(r.job.busy.Load())
		r.share, r.busy, r.at = max(0, (busy-r.busy).Seconds())/passed.Seconds(), busy, m.At
	}
	if m.Inflight == 0 && r.last.Inflight == 0 && m.Begun == r.last.Begun {
		s.Gap = m.At.Sub(r.last.At)
		ios := r.rest + s.Gap.Seconds()*r.others(r.share)
		s.IOs = uint64(ios)
		r.rest = ios - float64(s.IOs)
	}
	r.last = m
	return s
}

// watched returns a gate on solid state that r watches, and a job at a policy.
func watched(r *reactive, p iopolicy.Policy) (*iopolicy.Gate, *load) {
	set := iopolicy.DefaultSettings()
	set.MaxImpact = 0.05
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: set, Watcher: r})
	read := iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096, Certain: true}
	r.job = &load{pass: gate.Pass(iopolicy.NewClient(p)), op: read, took: 28 * time.Microsecond}
	r.at = time.Now()
	return gate, r.job
}

// budgets samples the size of slot grants while a job runs.
func budgets(t *testing.T, gate *iopolicy.Gate, job *load, during time.Duration) (sizes []time.Duration) {
	t.Helper()
	end := time.Now().Add(during)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for time.Now().Before(end) {
			sizes = append(sizes, gate.Stats().Budget)
			time.Sleep(7 * ms)
		}
	}()
	job.run(t, 8, during)
	<-done
	return sizes
}

// share returns the part of the time in which the job used the device.
func (l *load) share(of time.Duration) float64 {
	return time.Duration(l.busy.Load()).Seconds() / of.Seconds()
}

// TestDemandThatFallsBesideTheJob: other processes that do less the more the job does must not get an ever smaller
// part.
func TestDemandThatFallsBesideTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, job := watched(&reactive{others: func(share float64) float64 {
			return 4000 * max(0.1, 1-4*share)
		}}, iopolicy.Throttle)
		job.run(t, 8, 2*time.Second)
		job.reset()
		sizes := budgets(t, gate, job, 4*time.Second)
		require.LessOrEqual(t, job.share(4*time.Second), 0.09)
		require.LessOrEqual(t, float64(slices.Max(sizes)), 2*float64(slices.Min(sizes)))
	})
}

// TestOwnLateIOIsTakenForOthers: journal and write-back of the job's own flushes reach the device in its sleeps, and
// the watcher counts them as foreign. The grant must settle above the minimum rate.
func TestOwnLateIOIsTakenForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, job := watched(&reactive{others: func(share float64) float64 {
			return 50 + 20000*share
		}}, iopolicy.Throttle)
		job.run(t, 8, 4*time.Second)
		job.reset()
		sizes := budgets(t, gate, job, 4*time.Second)
		require.GreaterOrEqual(t, job.done.Load(), int64(4*400))
		require.GreaterOrEqual(t, job.share(4*time.Second), 0.05)
		require.LessOrEqual(t, float64(slices.Max(sizes)), 4*float64(slices.Min(sizes)))
	})
}

// TestTwoJobsThatSeeEachOther: each counts the other as foreign at tier 0. Both keep at least the minimum rate, and
// neither starves the other.
func TestTwoJobsThatSeeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jobs [2]*load
		for i := range jobs {
			seen, at := int64(0), time.Now()
			_, jobs[i] = watched(&reactive{others: func(float64) float64 {
				did, passed := jobs[1-i].done.Load()-seen, time.Since(at).Seconds()
				seen, at = seen+did, time.Now()
				return float64(did) / passed
			}}, iopolicy.Throttle)
		}
		run := func(during time.Duration) (done [2]float64) {
			var both sync.WaitGroup
			for i, job := range jobs {
				both.Go(func() {
					before := job.done.Load()
					job.run(t, 8, during)
					done[i] = float64(job.done.Load() - before)
				})
			}
			both.Wait()
			return done
		}
		run(2 * time.Second)
		done := run(4 * time.Second)
		a, b := done[0], done[1]
		require.GreaterOrEqual(t, min(a, b), 4*400.0)
		require.LessOrEqual(t, max(a, b), 3*min(a, b))
	})
}

// TestNoiseDoesNotPinTheJob: foreign I/O that comes in bursts, 50 a second on average, leaves the job most of the time.
func TestNoiseDoesNotPinTheJob(t *testing.T) {
	slow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		_, job := watched(&reactive{others: func(float64) float64 {
			if random.Float64() < 0.9 {
				return 0
			}
			return 500
		}}, iopolicy.Throttle)
		job.run(t, 8, 2*time.Second)
		job.reset()
		job.run(t, 8, 8*time.Second)
		require.GreaterOrEqual(t, job.share(8*time.Second), 0.5)
	})
}

// TestStartAndEndOfAForeground: within a look, 5 ms, and one operation of the start no operation goes at full speed,
// and within the window and 20 ms of the end all do.
func TestStartAndEndOfAForeground(t *testing.T) {
	for policy, window := range map[iopolicy.Policy]time.Duration{
		iopolicy.Standard: 25 * ms, iopolicy.Utility: 100 * ms, iopolicy.Throttle: 500 * ms,
	} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, _, job := budgeted(0, 0.05, iopolicy.SSD, policy)
				start := time.Now()
				go func() {
					time.Sleep(time.Second)
					disk.set(20000)
					time.Sleep(time.Second)
					disk.set(0)
				}()
				var last, first time.Duration // at full speed: before 2 s, and after
				for time.Since(start) < 3*time.Second {
					g, err := job.pass.Begin(t.Context(), job.op)
					require.NoError(t, err)
					at := time.Since(start)
					switch {
					case g.Max > 0:
					case at < 2*time.Second:
						last = at
					case first == 0:
						first = at
					}
					time.Sleep(job.took)
					g.End(job.op.Bytes)
				}
				require.LessOrEqual(t, last, time.Second+5*ms+job.took)
				require.LessOrEqual(t, first, 2*time.Second+window+20*ms)
				require.Greater(t, first, 2*time.Second)
			})
		})
	}
}
