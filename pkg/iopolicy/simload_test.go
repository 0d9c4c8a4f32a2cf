package iopolicy_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// simLoad starts a program that uses a disk.
type simLoad func(d *simDisk) *simUser

// simTimes is when a program is active; zero: always.
type simTimes struct{ from, every, lasts time.Duration }

// next returns at if the program is active then, else when it is next.
func (s simTimes) next(at int64) int64 {
	in := at - int64(s.from)
	switch {
	case in < 0:
		return int64(s.from)
	case s.every > 0 && in%int64(s.every) >= int64(s.lasts):
		return at + int64(s.every) - in%int64(s.every)
	}
	return at
}

// unpaced is a closed loop without a pause: so many requests are in flight at any time.
func unpaced(depth, bytes int, times simTimes) simLoad {
	return func(d *simDisk) *simUser {
		u := &simUser{}
		u.then = func(simEvent) {
			if at := times.next(d.clock); at > d.clock {
				d.timer(u, at)
				return
			}
			d.submit(u, bytes)
		}
		for range depth {
			d.timer(u, times.next(0))
		}
		return u
	}
}

// paced is an open loop: so many requests a second, at equal distances or at random.
func paced(rate float64, random bool, bytes int) simLoad {
	return func(d *simDisk) *simUser {
		u, dice := &simUser{}, rand.New(rand.NewPCG(3, 4))
		u.then = func(e simEvent) {
			if e.since >= 0 {
				return
			}
			pause := 1.0
			if random {
				pause = dice.ExpFloat64()
			}
			d.timer(u, d.clock+int64(pause/rate*float64(time.Second)))
			d.submit(u, bytes)
		}
		d.timer(u, 0)
		return u
	}
}

// discouraged is a closed loop of one request that does less, the part left of it, after each 200 ms in which its mean
// latency is that much above that of the first second, down to a sixteenth. In 200 ms without that it recovers by 0.05
// of the full rate.
func discouraged(by, left float64, bytes int) simLoad {
	return func(d *simDisk) *simUser {
		u := &simUser{}
		demand, usual, sum, n, since := 1.0, 0.0, 0.0, 0, int64(0)
		u.then = func(e simEvent) {
			if e.since < 0 {
				d.submit(u, bytes)
				return
			}
			took := float64(d.clock - e.since)
			sum, n = sum+took, n+1
			switch mean := sum / float64(n); {
			case usual == 0 && d.clock < int64(warm), usual > 0 && d.clock-since < int64(200*ms):
			case usual == 0:
				usual, sum, n, since = mean, 0, 0, d.clock
			case mean > usual*(1+by):
				demand, sum, n, since = max(demand*left, 1.0/16), 0, 0, d.clock
			default:
				demand, sum, n, since = min(demand+0.05, 1), 0, 0, d.clock
			}
			d.timer(u, d.clock+int64(took*(1/demand-1)))
		}
		d.timer(u, 0)
		return u
	}
}

// thinks is a closed loop of one request, after which it pauses.
func thinks(pause time.Duration, bytes int) simLoad {
	return func(d *simDisk) *simUser {
		u := &simUser{}
		u.then = func(e simEvent) {
			if e.since < 0 {
				d.submit(u, bytes)
				return
			}
			d.timer(u, d.clock+int64(pause))
		}
		d.timer(u, 0)
		return u
	}
}

// keepsPace is a closed loop of one request that does so many requests a second, and what it has missed without a
// pause.
func keepsPace(perSecond float64, bytes int) simLoad {
	return func(d *simDisk) *simUser {
		u, next := &simUser{}, 0.0
		u.then = func(e simEvent) {
			if e.since < 0 {
				d.submit(u, bytes)
				return
			}
			next += float64(time.Second) / perSecond
			d.timer(u, max(d.clock, int64(next)))
		}
		d.timer(u, 0)
		return u
	}
}

// writeBack is what a kernel does with pages that programs have written: 8 MiB at once, each 1 to 5 s.
func writeBack() simLoad {
	return func(d *simDisk) *simUser {
		u, dice := &simUser{}, rand.New(rand.NewPCG(5, 6))
		u.then = func(e simEvent) {
			if e.since >= 0 {
				return
			}
			for range 32 {
				d.submit(u, 256<<10)
			}
			d.timer(u, d.clock+int64(time.Second)+dice.Int64N(int64(4*time.Second)))
		}
		d.timer(u, int64(time.Second/2))
		return u
	}
}

// simJob is a job of ours: workers that read without a pause.
type simJob struct {
	policy  iopolicy.Policy
	bytes   int // of a request
	workers int
	flushes bool          // each 0.5 s one of 4 ms, with a journal of 128 KiB that reaches the disk a little later
	late    bool          // each request occupies a channel not when it is made but 100 ms later
	pauses  bool          // after each 48 MiB the disk pauses for 40 ms
	idles   time.Duration // for so long a worker does something else after each request
}

// run works until ctx ends. It returns when each operation began, if there is one worker.
func (j simJob) run(ctx context.Context, d *simDisk, own *simUser, pass *iopolicy.Pass) (started []int64) {
	var wg sync.WaitGroup
	do := func(n int) {
		d.do(func() int64 {
			if j.workers == 1 {
				started = append(started, d.clock)
			}
			if j.pauses && own.bytes>>20/48 > (own.bytes-uint64(n))>>20/48 {
				d.flush(&d.inner, 40*ms)
			}
			if j.late {
				return d.cached(own, n)
			}
			return d.submit(own, n)
		})
	}
	for range j.workers {
		wg.Go(func() {
			op := iopolicy.Op{Kind: iopolicy.Read, Bytes: j.bytes, Certain: true}
			for {
				g, err := pass.Begin(ctx, op)
				if err != nil {
					return
				}
				n := j.bytes
				if g.Max > 0 {
					n = min(n, g.Max)
				}
				do(n)
				g.End(n)
				time.Sleep(j.idles)
			}
		})
	}
	for late := (&simUser{}); j.flushes; {
		time.Sleep(time.Second / 2)
		g, err := pass.Begin(ctx, iopolicy.Op{Kind: iopolicy.Sync, Certain: true})
		if err != nil {
			break
		}
		d.do(func() int64 { return d.flush(own, 4*ms) })
		g.End(0)
		d.do(func() int64 { d.submit(late, 128<<10); return d.clock })
	}
	wg.Wait()
	return started
}

// simScene is a disk, others that use it, and a job beside them.
type simScene struct {
	model  simModel
	others []simLoad // kept is what the first ones keep
	steady int       // how many of others count as kept; 0: all
	job    simJob
	jobs   int // each at a gate of its own; 0: one
	impact float64
	long   time.Duration
	peers  bool // the jobs' gates know of each other

	journal float64 // see simWatcher
	bursts  bool
}

// simMode is what the gate of a job may know.
type simMode int

const (
	alone      simMode = iota // there is no job
	calculated                // others are never counted beside the job
	measured
	unsure // measured, but others are not counted in the second half
	single // measured, but what is in flight is not
)

// simRun is what happened in one run.
type simRun struct {
	others  []*simUser
	own     []*simUser
	stats   []iopolicy.Stats // of the first job's gate, every 5 ms from the start
	started []int64          // when each operation of a worker began, ns from the start
}

const (
	sampled = 5 * ms
	warm    = time.Second // after which the job begins
)

// run runs a scene.
func (s simScene) run(t *testing.T, mode simMode) (r simRun) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk(s.model)
		for _, start := range s.others {
			r.others = append(r.others, start(d))
		}
		ctx, cancel := context.WithTimeout(t.Context(), s.long)
		defer cancel()
		var wg sync.WaitGroup
		peers := &simPeers{}
		for i := range max(1, s.jobs) {
			if mode == alone {
				break
			}
			own := &simUser{}
			r.own = append(r.own, own)
			gate := s.gate(d, own, mode, peers)
			pass := gate.Pass(iopolicy.NewClient(s.job.policy))
			wg.Go(func() {
				time.Sleep(warm)
				if started := s.job.run(ctx, d, own, pass); i == 0 {
					r.started = started
				}
			})
			if i == 0 {
				wg.Go(func() {
					for ; ctx.Err() == nil; time.Sleep(sampled) {
						r.stats = append(r.stats, gate.Stats())
					}
				})
			}
		}
		<-ctx.Done()
		wg.Wait()
		d.do(func() int64 { return d.clock })
	})
	return r
}

// gate is the gate of a job.
func (s simScene) gate(d *simDisk, own *simUser, mode simMode, peers *simPeers) *iopolicy.Gate {
	set := iopolicy.DefaultSettings()
	set.MaxImpact = s.impact
	watcher := &simWatcher{disk: d, own: own, journal: s.journal, bursts: s.bursts, counted: func(at time.Duration) bool {
		return mode == measured || mode == single || mode == unsure && at < s.long/2
	}}
	watcher.single, d.ours = mode == single, own
	cfg := iopolicy.Config{Medium: s.model.medium, Settings: set, Watcher: watcher}
	if s.peers {
		cfg.Peers = peers.join()
	}
	return iopolicy.New(cfg)
}

// rate returns the bytes a second of the users that count as kept, or of own ones, in a part of a run.
func rate(users []*simUser, from, until time.Duration) float64 {
	sum := 0.0
	for _, u := range users {
		for s := int(from / time.Second); s < min(int(until/time.Second), len(u.seconds)); s++ {
			sum += float64(u.seconds[s])
		}
	}
	return sum / (until - from).Seconds()
}

// share returns the part of the time that slot grants of the first job used.
func (r simRun) share(from, until time.Duration) float64 {
	at := func(d time.Duration) time.Duration { return r.stats[min(int(d/sampled), len(r.stats)-1)].Turns }
	return (at(until) - at(from)).Seconds() / (until - from).Seconds()
}

// simResult compares a run with others.
type simResult struct {
	free           simRun // without the job
	calc, ctl      simRun
	keptCalc, kept float64 // of the rate that others have alone: beside the calculated grant, and beside the measured one
	worst          float64 // kept in the worst second
	rise           float64 // of the job's bytes, over those with the calculated grant, in the second half
	share          float64 // of the time, in the second half
}

// compare runs a scene three times.
func (s simScene) compare(t *testing.T) (r simResult) {
	t.Helper()
	s.impact = 0.05
	steady := s.steady
	if steady == 0 {
		steady = len(s.others)
	}
	foreground := func(r simRun) []*simUser { return r.others[:steady] }
	free := s.run(t, alone)
	r.free, r.calc, r.ctl = free, s.run(t, calculated), s.run(t, measured)
	solo := rate(foreground(free), warm, s.long)
	r.keptCalc = rate(foreground(r.calc), warm, s.long) / solo
	r.kept = rate(foreground(r.ctl), warm, s.long) / solo
	r.worst = math.Inf(1)
	for at := warm; at < s.long; at += time.Second {
		if alone := rate(foreground(free), at, at+time.Second); alone > 0 {
			r.worst = min(r.worst, rate(foreground(r.ctl), at, at+time.Second)/alone)
		}
	}
	half := (s.long / 2).Truncate(time.Second)
	r.rise = rate(r.ctl.own, half, s.long) / rate(r.calc.own, half, s.long)
	r.share = r.ctl.share(half, s.long)
	one := func(r simRun, part float64) float64 { return r.others[0].percentile(part).Seconds() * 1e6 }
	t.Logf("kept %.1f %% (calculated %.1f %%), worst second %.1f %%; share %.1f %% (%.1f %%), job's rate %.2fx; "+
		"p50 %.0f us (%.0f, alone %.0f), p99 %.0f us (%.0f, alone %.0f)", 100*r.kept, 100*r.keptCalc, 100*r.worst,
		100*r.share, 100*r.calc.share(half, s.long), r.rise, one(r.ctl, 0.5), one(r.calc, 0.5), one(free, 0.5),
		one(r.ctl, 0.99), one(r.calc, 0.99), one(free, 0.99))
	return r
}

// harmless runs the scene and requires that others keep what max-impact allows, or what the calculation alone leaves
// them, and more, as rarely requires it.
func (s simScene) harmless(t *testing.T, impact float64, more ...func(t assert.TestingT, r simResult)) {
	t.Helper()
	rarely(t, func(at assert.TestingT) {
		r := s.compare(t)
		assert.GreaterOrEqual(at, r.kept, min(1-impact, r.keptCalc)-tolerance, "others lose more")
		assert.GreaterOrEqual(at, r.rise, 0.85, "the job does less than the calculation grants")
		for _, m := range more {
			m(at, r)
		}
	})
}

// rarely requires what check asserts of runs. Which of two goroutines is first is chance. So a run that misses a bound
// counts if one of two more runs misses one too; repeat the tests in a loop and look for "again" to find what is rare.
func rarely(t *testing.T, check func(at assert.TestingT)) {
	t.Helper()
	m := misses{T: t}
	if check(&m); m.any {
		t.Log("again")
		check(t)
		check(t)
	}
}

// misses records whether an assertion has failed.
type misses struct {
	*testing.T
	any bool
}

func (m *misses) Errorf(format string, args ...any) {
	m.any = true
	m.Logf(format, args...)
}

// fallen asserts that so long after a moment the grant is no more than the calculated one.
func (r simResult) fallen(t assert.TestingT, at, after time.Duration) {
	i := int((at + after) / sampled)
	assert.LessOrEqual(t, float64(r.ctl.stats[i].Budget), 1.3*float64(r.calc.stats[i].Budget), "at %v", at)
}

// simPeers are the gates of several processes that know of each other, with one ledger of slots.
type simPeers struct {
	mu    sync.Mutex
	all   []*simPeer
	taken time.Time
}

type simPeer struct {
	of       *simPeers
	newest   [iopolicy.Tiers]time.Time
	inflight [iopolicy.Tiers]int
}

func (p *simPeers) join() *simPeer {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := &simPeer{of: p}
	p.all = append(p.all, one)
	return one
}

func (p *simPeer) Publish(t iopolicy.Tier, at time.Time) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.newest[t] = at
}

func (p *simPeer) enter(t iopolicy.Tier, by int) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.inflight[t] += by
}

func (p *simPeer) Enter(t iopolicy.Tier) { p.enter(t, 1) }
func (p *simPeer) Leave(t iopolicy.Tier) { p.enter(t, -1) }

func (p *simPeer) Seen() (s iopolicy.Sighting) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	for _, other := range p.of.all {
		if other == p {
			continue
		}
		for t := range iopolicy.Tiers {
			if other.newest[t].After(s.Newest[t]) {
				s.Newest[t] = other.newest[t]
			}
			s.Inflight[t] = s.Inflight[t] || other.inflight[t] > 0
		}
	}
	return s
}

func (p *simPeer) Claim(_ iopolicy.Tier, now time.Time, period time.Duration) (bool, time.Time) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if now.Sub(p.of.taken) < period {
		return false, p.of.taken.Add(period)
	}
	p.of.taken = now
	return true, time.Time{}
}
