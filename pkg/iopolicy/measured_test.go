package iopolicy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// These tests run a job beside others on a simulated disk, and compare three runs: others alone, others beside the
// calculated slot grants, and others beside those that measurement raises.

// reader is a job that reads 128 KiB, or what a slot grant allows, in four workers.
func reader(p iopolicy.Policy) simJob { return simJob{policy: p, bytes: 128 << 10, workers: 4} }

var always = simTimes{}

// flashModels are the models of flash, by their names.
func flashModels() map[string]simModel {
	return map[string]simModel{
		"free channels": simFlash(), "dies": simDies(), "overlap": simOverlap(), "queue": simQueue(),
	}
}

// tolerance is the part of others' rate that the simulation does not determine: requests have random durations.
const tolerance = 0.01

// TestSimulatedDisks: each model costs others what it is for. With max-impact 1 the job has the disk for most of the
// time, whatever others lose.
func TestSimulatedDisks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model       simModel
		load        simLoad
		least, most float64 // part of the job's time at the disk that others lose
	}{
		"free channels, 1 deep": {simFlash(), unpaced(1, 4096, always), 0, 0.01},
		"free channels, 4 deep": {simFlash(), unpaced(4, 4096, always), 0, 0.01},
		"dies, 1 deep":          {simDies(), unpaced(1, 4096, always), 0.02, 0.20},
		"dies, 4 deep":          {simDies(), unpaced(4, 4096, always), 0.02, 0.20},
		"overlap, 1 deep":       {simOverlap(), unpaced(1, 4096, always), 0.15, 0.65},
		"queue, 1 deep":         {simQueue(), unpaced(1, 4096, always), 0.75, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(name, "4 deep") {
				slow(t) // as 1 deep, and four times the work
			}
			s := simScene{model: c.model, others: []simLoad{c.load}, job: reader(iopolicy.Throttle), long: 5 * time.Second}
			free := s.run(t, alone)
			for _, s.impact = range []float64{0.05, 1} {
				r := s.run(t, calculated)
				share := r.share(2*time.Second, s.long)
				lost := 1 - rate(r.others, 2*time.Second, s.long)/rate(free.others, 2*time.Second, s.long)
				t.Logf("share %.3f, lost %.3f", share, lost)
				require.GreaterOrEqual(t, lost, c.least*share-0.005)
				require.LessOrEqual(t, lost, c.most*share+0.005)
				require.InDelta(t, min(s.impact, 0.8), share, 0.1*s.impact)
			}
		})
	}
}

// TestMeasuredGrants: where the disk serves others beside the job, the job does several times as much. Where others
// lose what the job uses, it does no less than the calculation grants. Others never lose more than max-impact.
func TestMeasuredGrants(t *testing.T) {
	slow(t)
	t.Parallel()
	small, deep, stream := unpaced(1, 4096, always), unpaced(4, 4096, always), unpaced(4, 256<<10, always)
	const none = 0.85
	for _, c := range []struct {
		name   string
		model  simModel
		load   simLoad
		policy iopolicy.Policy
		rise   float64
	}{
		{"free channels, 1 deep", simFlash(), small, iopolicy.Throttle, 8},
		{"free channels, 4 deep", simFlash(), deep, iopolicy.Throttle, 8},
		{"free channels, stream", simFlash(), stream, iopolicy.Throttle, 8},
		{"free channels, utility", simFlash(), small, iopolicy.Utility, 8},
		{"free channels, standard", simFlash(), small, iopolicy.Standard, 8},
		{"dies, 1 deep", simDies(), small, iopolicy.Throttle, 6},
		{"dies, 4 deep", simDies(), deep, iopolicy.Throttle, 6},
		{"dies, stream", simDies(), stream, iopolicy.Throttle, 6},
		{"dies, utility", simDies(), small, iopolicy.Utility, 6},
		{"dies, standard", simDies(), small, iopolicy.Standard, 6},
		{"overlap, 1 deep", simOverlap(), small, iopolicy.Throttle, 3},
		{"overlap, 4 deep", simOverlap(), deep, iopolicy.Throttle, 2},
		{"overlap, stream", simOverlap(), stream, iopolicy.Throttle, 3},
		{"overlap, standard", simOverlap(), small, iopolicy.Standard, 3},
		{"queue, 1 deep", simQueue(), small, iopolicy.Throttle, none},
		{"queue, 4 deep", simQueue(), deep, iopolicy.Throttle, none},
		{"queue, stream", simQueue(), stream, iopolicy.Throttle, none},
		{"queue, utility", simQueue(), small, iopolicy.Utility, none},
		{"queue, standard", simQueue(), small, iopolicy.Standard, none},
		{"arm, 1 deep", simArm(), small, iopolicy.Throttle, none},
		{"arm, 4 deep", simArm(), deep, iopolicy.Throttle, none},
		{"arm, stream", simArm(), unpaced(2, 256<<10, always), iopolicy.Throttle, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := simScene{model: c.model, others: []simLoad{c.load}, job: reader(c.policy), long: 24 * time.Second}
			if c.model.medium == iopolicy.HDD { // few requests
				s.long = 240 * time.Second
			}
			s.harmless(t, 0.05, func(t assert.TestingT, r simResult) { assert.GreaterOrEqual(t, r.rise, c.rise) })
		})
	}
}

// TestMeasuredWidth: where others lose as much whether one operation or four are in flight, there are four, and the job
// does more in the same time. Where each waits for the others, as much is in flight as without the comparison; where
// they overlap, it errs in one run of twelve, and the job has two thirds. Others' p99 hardly changes.
func TestMeasuredWidth(t *testing.T) {
	slow(t)
	t.Parallel()
	together := simFlash()
	together.beside = 30 * us
	slowly := together
	busy := unpaced(1, 4096, always)
	slowly.drift = func(at time.Duration) float64 { return 1 + float64(at/(12*time.Second))/2 }
	for _, c := range []struct {
		name        string
		model       simModel
		others      simLoad
		bytes       int // of an operation of the job
		least, most float64
		late        float64 // others' p99, as a multiple of that without the comparison
	}{
		{"together", together, busy, 16 << 10, 2, 4, 1.25},
		{"together, and half as fast later", slowly, busy, 16 << 10, 1.2, 4, 1.25},
		{"queue", simQueue(), busy, 16 << 10, 0.8, 1.25, 1.25},
		{"overlap", simOverlap(), busy, 16 << 10, 0.5, 2, 1.25},
		{"free channels, paced", simFlash(), paced(1000, true, 4096), 64 << 10, 1.5, 2.5, 1.25},
		{"queue, paced", simQueue(), paced(1000, true, 4096), 64 << 10, 0.8, 1.25, 1.4},
		{"overlap, paced", simOverlap(), paced(1000, true, 4096), 64 << 10, 0.7, 2, 1.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := simScene{model: c.model, others: []simLoad{c.others}, job: reader(iopolicy.Throttle),
				impact: 0.05, long: 24 * time.Second}
			s.job.bytes = c.bytes
			rarely(t, func(at assert.TestingT) {
				free, one, wide := s.run(t, alone), s.run(t, single), s.run(t, measured)
				kept := rate(wide.others, warm, s.long) / rate(free.others, warm, s.long)
				more := rate(wide.own, s.long/2, s.long) / rate(one.own, s.long/2, s.long)
				t.Logf("kept %.1f %%, job's rate %.2fx, p99 %v, %v, alone %v", 100*kept, more,
					wide.others[0].percentile(0.99), one.others[0].percentile(0.99), free.others[0].percentile(0.99))
				assert.GreaterOrEqual(at, kept, 0.95-tolerance)
				assert.GreaterOrEqual(at, more, c.least)
				assert.LessOrEqual(at, more, c.most)
				late := float64(wide.others[0].percentile(0.99)) / float64(one.others[0].percentile(0.99))
				assert.LessOrEqual(at, late, c.late)
			})
		})
	}
}

// TestMeasuredBesidePacedUse: others that use the disk at a rate lose nothing of it, and the job does no less than the
// calculation grants, and more where the disk has channels for it. Up to a half of what the disk can do, the others'
// latency remains near that beside the calculated grants.
func TestMeasuredBesidePacedUse(t *testing.T) {
	slow(t)
	t.Parallel()
	loads := map[string]simLoad{
		"50 a second":             paced(50, true, 4096),
		"1000 a second, regular":  paced(1000, false, 4096),
		"1000 a second":           paced(1000, true, 4096),
		"5000 a second":           paced(5000, true, 4096),
		"20000 a second, regular": paced(20000, false, 4096),
	}
	for name, model := range flashModels() {
		for load, others := range loads {
			t.Run(name+", "+load, func(t *testing.T) {
				t.Parallel()
				s := simScene{model: model, others: []simLoad{others}, job: reader(iopolicy.Throttle),
					long: 24 * time.Second}
				if load == "50 a second" {
					s.long = 10 * time.Second // the job has most of the time from the start
				}
				s.harmless(t, 0.01, func(t assert.TestingT, r simResult) {
					if model.channels > 1 && load != "50 a second" {
						assert.GreaterOrEqual(t, r.rise, 1.5)
					}
					if strings.HasPrefix(load, "1000 ") { // half of the time, and latency stays near that alone
						assert.GreaterOrEqual(t, r.share, 0.4)
						if name != "queue" {
							assert.LessOrEqual(t, r.ctl.others[0].percentile(0.99), 2*r.free.others[0].percentile(0.99))
						}
					}
					if name == "queue" && load == "20000 a second, regular" {
						return // it has the disk for more than half of the time
					}
					calc, ctl := r.calc.others[0], r.ctl.others[0]
					half := 2 * calc.percentile(0.5)
					if name == "queue" { // where the job has most of the time, an I/O meets one of its operations
						half += half / 4
					}
					assert.LessOrEqual(t, ctl.percentile(0.5), half)
					assert.LessOrEqual(t, ctl.percentile(0.99), 2*calc.percentile(0.99))
				})
			})
		}
	}
}

// TestGrantThatIsNotUsedUpGrows: two seconds after a job has begun, its grants are two fifths of the time or more,
// though it uses less than half of them.
func TestGrantThatIsNotUsedUpGrows(t *testing.T) {
	t.Parallel()
	s := simScene{model: simFlash(), others: []simLoad{paced(1000, false, 4096)}, impact: 0.05, long: 6 * time.Second}
	s.job = reader(iopolicy.Throttle)
	s.job.workers, s.job.idles = 1, 400*us
	r := s.run(t, measured)
	var grants []time.Duration
	for _, st := range r.stats[(warm+2*time.Second)/sampled:] {
		grants = append(grants, st.Budget)
	}
	slices.Sort(grants)
	require.GreaterOrEqual(t, grants[len(grants)/2], 10*ms)
	require.Less(t, r.share(warm+2*time.Second, s.long), 0.2)
}

// TestMeasuredBesideProgramsThatThink: a program that reads and then calculates keeps what max-impact allows, since
// what is in flight follows its rate, and the job has half of the time, unless one of its requests takes as long as a
// tenth of the pause.
func TestMeasuredBesideProgramsThatThink(t *testing.T) {
	slow(t)
	t.Parallel()
	models := flashModels()
	slowQueue := simQueue()
	slowQueue.request, slowQueue.kibibyte = 80*us, 5*us
	models["slow queue"] = slowQueue
	for name, model := range models {
		for i, pause := range []time.Duration{200 * us, 400 * us, time.Millisecond, 3 * time.Millisecond} {
			for j, flushes := range []bool{false, true} {
				if !testkit.Long() && (i+j)%2 > 0 {
					continue // every pause, with and without flushes
				}
				t.Run(fmt.Sprintf("%s, %v, flushes %v", name, pause, flushes), func(t *testing.T) {
					t.Parallel()
					job := reader(iopolicy.Throttle)
					job.flushes = flushes
					lose := 0.05
					if flushes && name == "slow queue" { // a flush stops it for as long as forty of its I/Os
						lose = 0.06
					}
					s := simScene{model: model, others: []simLoad{thinks(pause, 4096)}, job: job}
					s.long = 24 * time.Second
					s.harmless(t, lose, func(t assert.TestingT, r simResult) {
						if pause >= time.Millisecond && name != "slow queue" && !flushes {
							assert.GreaterOrEqual(t, r.share, 0.4)
						}
					})
				})
			}
		}
	}
}

// TestMeasuredBesideDemandThatFalls: a program that uses the disk less when it is slower does not lose more than
// max-impact, or than it does beside the calculated grants. One that halves its use at 3 % more latency, less than
// max-impact allows, loses it several times, at ever longer intervals.
func TestMeasuredBesideDemandThatFalls(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, model := range flashModels() {
		model.noise = 0.02 // of 200 ms: 0.006 of the latency
		for _, c := range []struct {
			by, left float64
			long     time.Duration
			impact   float64
		}{{0.03, 0.5, 60 * time.Second, 0.10}, {0.03, 0.95, 60 * time.Second, 0.06}, {0.1, 0.5, 30 * time.Second, 0.05}} {
			t.Run(fmt.Sprintf("%s, %.0f %%, %.2f", name, 100*c.by, c.left), func(t *testing.T) {
				t.Parallel()
				s := simScene{model: model, others: []simLoad{discouraged(c.by, c.left, 4096)}, job: reader(iopolicy.Throttle),
					long: c.long}
				s.harmless(t, c.impact)
			})
		}
	}
}

// TestMeasuredGrantFallsAtOnce: the grant is the calculated one within two periods and a look after others begin to use
// the disk more or in another way, and within three after they use it less.
func TestMeasuredGrantFallsAtOnce(t *testing.T) {
	slow(t)
	t.Parallel()
	later := simTimes{2 * time.Second, 4 * time.Second, 2 * time.Second}
	small, large, deep := unpaced(1, 4096, simTimes{0, 4 * time.Second, 2 * time.Second}),
		unpaced(4, 256<<10, later), unpaced(4, 4096, later)
	late := simTimes{from: 12*time.Second + 13*ms}
	for _, c := range []struct {
		name  string
		model simModel
		loads []simLoad
		first time.Duration
		every time.Duration // 0: there is one change
	}{
		{"free channels, two in turns", simFlash(), []simLoad{small, large}, later.from, 2 * time.Second},
		{"dies, two in turns", simDies(), []simLoad{small, large}, later.from, 2 * time.Second},
		{"overlap, two in turns", simOverlap(), []simLoad{small, large}, later.from, 2 * time.Second},
		{"queue, two in turns", simQueue(), []simLoad{small, large}, later.from, 2 * time.Second},
		{"free channels, comes and goes", simFlash(), []simLoad{deep, paced(20, true, 4096)}, later.from, 4 * time.Second},
		{"queue, comes and goes", simQueue(), []simLoad{deep, paced(20, true, 4096)}, later.from, 4 * time.Second},
		{"free channels, second program", simFlash(), []simLoad{unpaced(1, 4096, always), unpaced(4, 4096, late)},
			late.from, 0},
		{"dies, second program", simDies(), []simLoad{unpaced(1, 4096, always), unpaced(4, 4096, late)}, late.from, 0},
		{"dies, beside a stream", simDies(), []simLoad{unpaced(4, 256<<10, always), unpaced(4, 4096, late)},
			late.from, 0},
		{"overlap, in a large grant", simOverlap(), []simLoad{paced(300, true, 4096), unpaced(1, 4096, late)},
			late.from, 0},
		{"queue, in a large grant", simQueue(), []simLoad{paced(300, true, 4096), unpaced(1, 4096, late)}, late.from, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := simScene{model: c.model, others: c.loads, job: reader(iopolicy.Throttle), long: 24 * time.Second}
			s.harmless(t, 0.05, func(t assert.TestingT, r simResult) {
				for at := c.first; at < s.long-time.Second; at += c.every {
					if after := 55 * ms; at%(4*time.Second) == 0 {
						r.fallen(t, at, after+25*ms)
					} else {
						r.fallen(t, at, after)
					}
					if c.every == 0 {
						break
					}
				}
			})
		})
	}
}

// TestMeasuredBesideAStreamThatFillsTheDisk: a program that begins adds little to the rate of I/Os, but the disk has no
// channel left for the job.
func TestMeasuredBesideAStreamThatFillsTheDisk(t *testing.T) {
	slow(t)
	t.Parallel()
	late := simTimes{from: 12*time.Second + 13*ms}
	s := simScene{model: simFlash(), others: []simLoad{unpaced(1, 4096, always), unpaced(16, 256<<10, late)},
		job: reader(iopolicy.Throttle), long: 24 * time.Second}
	s.harmless(t, 0.05)
}

// TestMeasuredBesideMixedUse: what a program loses shows although another one moves most of the bytes, and programs
// whose use of the disk varies as fast as the slot grants lose no more than the others.
func TestMeasuredBesideMixedUse(t *testing.T) {
	slow(t)
	t.Parallel()
	stream, small := unpaced(4, 256<<10, always), unpaced(1, 4096, always)
	for name, c := range map[string]struct {
		model simModel
		loads []simLoad
	}{
		"dies, beside a stream":       {simDies(), []simLoad{small, stream}},
		"overlap, beside a stream":    {simOverlap(), []simLoad{small, stream}},
		"queue, beside a stream":      {simQueue(), []simLoad{small, stream}},
		"overlap, in bursts of 12 ms": {simOverlap(), []simLoad{unpaced(4, 4096, simTimes{0, 25 * ms, 12 * ms})}},
		"queue, in bursts of 12 ms":   {simQueue(), []simLoad{unpaced(4, 4096, simTimes{0, 25 * ms, 12 * ms})}},
		"queue, in bursts of 30 ms":   {simQueue(), []simLoad{unpaced(4, 4096, simTimes{0, 61 * ms, 30 * ms})}},
		"overlap, keeps pace":         {simOverlap(), []simLoad{keepsPace(20000, 4096)}},
		"queue, keeps pace":           {simQueue(), []simLoad{keepsPace(28000, 4096)}},
		"queue, 25000 a second":       {simQueue(), []simLoad{paced(25000, true, 4096)}},
		"overlap, 50000 a second":     {simOverlap(), []simLoad{paced(50000, true, 4096)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simScene{model: c.model, others: c.loads, steady: 1, job: reader(iopolicy.Throttle),
				long: 24 * time.Second}
			s.harmless(t, 0.05)
		})
	}
}

// TestMeasuredBesideWhatElseHappens: others keep what max-impact allows whatever else the kernel, the disk or the job
// does. Where what the job does costs others something that no trial sees, what bounds it is how much they may lose
// from before.
func TestMeasuredBesideWhatElseHappens(t *testing.T) {
	slow(t)
	t.Parallel()
	halves := func(at time.Duration) float64 {
		part := at.Seconds() / 20
		if part > 1 {
			part = max(0, 2-part)
		}
		return 1 + part
	}
	for what, c := range map[string]struct {
		impact float64
		but    string // models that it is not for
		set    func(s *simScene)
	}{
		"the kernel writes 8 MiB each few seconds": {0.05, "", func(s *simScene) {
			s.others, s.steady = append(s.others, writeBack()), 1
		}},
		"the job flushes, and leaves a journal": {0.05, "", func(s *simScene) { s.job.flushes = true }},
		// It counts as others', and there is more of it beside a larger slot grant. Who reads loses no more for that.
		"the file system writes for the job": {0.05, "free channels, dies", func(s *simScene) { s.journal = 0.3 }},
		"writes cost others something later": {0.12, "dies", func(s *simScene) { s.job.late = true }},
		"the disk pauses for over a period":  {0.06, "queue", func(s *simScene) { s.job.pauses = true }},
		"the disk's speed halves and doubles": {0.05, "", func(s *simScene) {
			s.long, s.model.drift = 50*time.Second, halves
		}},
		// Together they may take twice what one may.
		"two jobs":                      {0.10, "", func(s *simScene) { s.jobs = 2 }},
		"two jobs that know each other": {0.10, "", func(s *simScene) { s.jobs, s.peers = 2, true }},
	} {
		for name, model := range flashModels() {
			if strings.Contains(c.but, name) {
				continue
			}
			t.Run(what+", "+name, func(t *testing.T) {
				t.Parallel()
				s := simScene{model: model, others: []simLoad{unpaced(1, 4096, always)}, job: reader(iopolicy.Throttle),
					long: 24 * time.Second}
				c.set(&s)
				s.harmless(t, c.impact)
			})
		}
	}
}

// TestOwnJournalEndsNoTrial: a commit of what the job wrote, which shows in a gap, is no other use of the disk by those
// who read.
func TestOwnJournalEndsNoTrial(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, rise := range map[string]float64{"free channels": 6, "dies": 4, "overlap": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := map[string]simModel{"free channels": simFlash(), "dies": simDies(), "overlap": simOverlap()}[name]
			s := simScene{model: model, others: []simLoad{unpaced(1, 4096, always)}, job: reader(iopolicy.Throttle),
				journal: 0.3, bursts: true, long: 24 * time.Second}
			s.harmless(t, 0.05, func(t assert.TestingT, r simResult) { assert.GreaterOrEqual(t, r.rise, rise) })
		})
	}
}

// TestMeasurementEnds: once others are not counted, the grant is the calculated one within two periods, and stays it.
func TestMeasurementEnds(t *testing.T) {
	t.Parallel()
	s := simScene{model: simFlash(), others: []simLoad{unpaced(1, 4096, always)}, job: reader(iopolicy.Throttle),
		impact: 0.05, long: 20 * time.Second}
	r := simResult{calc: s.run(t, calculated), ctl: s.run(t, unsure)}
	require.Greater(t, r.ctl.stats[9900*ms/sampled].Budget, 2*r.calc.stats[9900*ms/sampled].Budget)
	for at := 10*time.Second + 50*ms; at < s.long-100*ms; at += 100 * ms {
		r.fallen(t, at, 0)
	}
}

// TestImpactZeroIsNotMeasured: with max-impact 0 the times of all operations are the same whether others are counted or
// not.
func TestImpactZeroIsNotMeasured(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]simModel{"free channels": simFlash(), "queue": simQueue(), "arm": simArm()} {
		for _, policy := range []iopolicy.Policy{iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle} {
			t.Run(fmt.Sprintf("%s, %v", name, policy), func(t *testing.T) {
				t.Parallel()
				half := simTimes{0, 4 * time.Second, 2 * time.Second}
				s := simScene{model: model, others: []simLoad{unpaced(1, 4096, half)}, job: reader(policy),
					long: 6 * time.Second}
				s.job.workers = 1
				a, b := s.run(t, calculated), s.run(t, measured)
				require.Equal(t, a.started, b.started)
				require.Greater(t, len(a.started), 20)
			})
		}
	}
}
