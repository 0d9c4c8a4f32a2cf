package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/benchkit"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// turnsNumber is the number of the measurement of how soon a backup yields and comes back.
const turnsNumber = 4

const (
	// sampleEvery is how often the bytes of a backup are looked at.
	sampleEvery = 5 * time.Millisecond
	// trials is how often a foreground starts and stops in one round.
	trials = 8
	// slack is how many operations more than one in each period a backup may do and still count as having yielded: the
	// one that is under way, and the one whose period has just begun.
	slack = 2
)

// sample is how many bytes all but the foreground had moved at a moment.
type sample struct {
	at    time.Time
	bytes uint64
}

// sampler watches what a disk does beside the foreground, which is the backup and what the file system does for it. The
// disk tells what is complete, which for writes is later than when the backup wrote them: it is what the foreground meets.
type sampler struct {
	stop chan struct{}
	done sync.WaitGroup
	mu   sync.Mutex
	all  []sample
	err  error
}

// watch samples a disk until end.
func watch(d *rig.Disk, t *rig.Toucher) *sampler {
	s := &sampler{stop: make(chan struct{})}
	s.done.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			// In this order the difference may lag behind by a block or two, and is never too large for good.
			all, err := d.Moved()
			theirs := t.Bytes()
			s.mu.Lock()
			if s.err = errors.Join(s.err, err); err == nil {
				s.all = append(s.all, sample{time.Now(), all - min(all, theirs)})
			}
			s.mu.Unlock()
		}
	})
	return s
}

func (s *sampler) end() error {
	close(s.stop)
	s.done.Wait()
	return s.err
}

// between returns the samples from one moment to another.
func (s *sampler) between(from, to time.Time) []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return within(s.all, from, to)
}

func within(all []sample, from, to time.Time) []sample {
	lo, _ := slices.BinarySearchFunc(all, from, func(x sample, t time.Time) int { return x.at.Compare(t) })
	hi, _ := slices.BinarySearchFunc(all, to, func(x sample, t time.Time) int { return x.at.Compare(t) })
	return slices.Clone(all[lo:max(lo, hi)])
}

// allowance is what a job may move in a time inside a window: one operation of the largest size in each period.
type allowance struct {
	period time.Duration
	most   int
}

// exceeds reports whether more was moved between two samples than a job that has yielded may.
func (a allowance) exceeds(from, to sample) bool {
	operations := slack + int(to.at.Sub(from.at)/a.period)
	return to.bytes > from.bytes+uint64(operations*a.most)
}

// calm is for how many periods a job must have kept to its allowance before it counts as having yielded: one that does a
// fifth more than it may is found out after so many.
const calm = 10

// yielded returns the earliest moment from which on the job never exceeded its allowance, until the last sample; false if
// that was not long enough to be sure.
func (a allowance) yielded(all []sample) (time.Time, bool) {
	for i := len(all) - 1; i >= 0; i-- {
		for k := i + 1; k < len(all); k++ {
			if a.exceeds(all[i], all[k]) {
				return all[i+1].at, all[len(all)-1].at.Sub(all[i+1].at) >= calm*a.period
			}
		}
	}
	if len(all) == 0 {
		return time.Time{}, false
	}
	return all[0].at, all[len(all)-1].at.Sub(all[0].at) >= calm*a.period
}

// back returns the first moment at which the job had exceeded its allowance since any earlier sample; false if it never
// did.
func (a allowance) back(all []sample) (time.Time, bool) {
	for k := range all {
		for i := range k {
			if a.exceeds(all[i], all[k]) {
				return all[k].at, true
			}
		}
	}
	return time.Time{}, false
}

// turns measures how soon a backup yields when a foreground starts, and how soon it is back when that stops.
func (b *bench) turns(ctx context.Context) error {
	for round := range b.runs {
		for _, p := range turn(tiers(), round) {
			if err := b.turnsOne(ctx, p, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) turnsOne(ctx context.Context, p iopolicy.Policy, round int) (err error) {
	if err := b.disk.Settle(ctx, true); err != nil {
		return err
	}
	t, err := rig.NewToucher(b.disk.At("foreground"), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	c := b.tidemark(p.String())
	keeper, _, err := b.disk.Keep(ctx, &c, b.disk.At("source"))
	if keeper == nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.Stop()) }()
	s := watch(b.disk, t)
	defer func() { err = errors.Join(err, s.end()) }()
	for range trials {
		if err := b.trial(ctx, p, round, s, t); err != nil {
			return err
		}
	}
	return nil
}

// trial lets the foreground come and go once.
func (b *bench) trial(ctx context.Context, p iopolicy.Policy, round int, s *sampler, t *rig.Toucher) error {
	may := allowance{period(p, b.medium), iopolicy.Default().MaxIOSize}
	if ok, err := s.busy(ctx, may); err != nil {
		return err
	} else if !ok {
		b.problem("4: %s: in round %d the backup was not at full speed before a foreground started", p, round)
		return nil
	}
	from, to, err := t.Hammer(ctx, b.stretched(600*time.Millisecond)+(calm+2)*may.period)
	if err != nil {
		return err
	}
	window := iopolicy.Default().Window[p.Tier()]
	limit := to.Add(window + 2*may.period + 2*time.Second)
	if err := rig.Pause(ctx, window); err != nil {
		return err
	}
	values := map[string]float64{}
	for time.Now().Before(limit) {
		if at, ok := may.back(s.between(to, limit)); ok {
			values["back"] = at.Sub(to).Seconds() * 1000
			break
		}
		if err := rig.Pause(ctx, sampleEvery); err != nil {
			return err
		}
	}
	if at, ok := may.yielded(s.between(from, to)); ok {
		values["yielded"] = at.Sub(from).Seconds() * 1000
	} else {
		b.problem("4: %s: in round %d the backup did not yield for as long as the foreground ran", p, round)
	}
	if _, ok := values["back"]; !ok {
		b.problem("4: %s: in round %d the backup was not back %v after the foreground had stopped", p, round, limit.Sub(to))
	}
	b.add(turnsNumber, p.String(), round, values)
	return nil
}

// busy waits until the backup is at full speed and for a random moment more, at most for some seconds.
func (s *sampler) busy(ctx context.Context, may allowance) (bool, error) {
	for limit := time.Now().Add(8 * time.Second); time.Now().Before(limit); {
		now := time.Now()
		_, lately := may.back(s.between(now.Add(-150*time.Millisecond), now))
		_, before := may.back(s.between(now.Add(-300*time.Millisecond), now.Add(-150*time.Millisecond)))
		if lately && before {
			return true, rig.Pause(ctx, time.Duration(rand.Int64N(int64(50*time.Millisecond))))
		}
		if err := rig.Pause(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (b *bench) turnsTable() string {
	var rows [][]string
	for _, p := range tiers() {
		name := p.String()
		if len(b.Of(turnsNumber, name)) == 0 {
			continue
		}
		row := []string{name}
		for _, key := range []string{"yielded", "back"} {
			var all []float64
			for _, r := range b.Of(turnsNumber, name) {
				if v, ok := r.Values[key]; ok {
					all = append(all, v)
				}
			}
			worst := "–"
			if len(all) > 0 {
				worst = number(slices.Max(all), 0)
			}
			row = append(row, number(benchkit.Median(all), 0), worst)
		}
		window := iopolicy.Default().Window[p.Tier()]
		rows = append(rows, append(row, fmt.Sprint(window.Milliseconds())))
	}
	return benchkit.Table([]string{"policy", "yields within, ms", "worst", "back within, ms", "worst", "window, ms"}, rows...)
}
