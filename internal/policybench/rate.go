package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/benchkit"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// floorNumber is the number of the measurement of the rate beside a continuous foreground.
const floorNumber = 3

// tiers are the policies that give way, best first.
func tiers() []iopolicy.Policy {
	return []iopolicy.Policy{iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle}
}

// period is the I/O period of a policy on a medium.
func period(p iopolicy.Policy, medium string) time.Duration {
	s := iopolicy.Default()
	if medium == "ssd" {
		return s.PeriodSSD[p.Tier()]
	}
	return s.PeriodHDD[p.Tier()]
}

// rateCase is one row of the third measurement.
type rateCase struct {
	policy iopolicy.Policy
	medium string
}

func (r rateCase) String() string { return fmt.Sprintf("%s / %s", r.policy, r.medium) }

func rateCases() (all []rateCase) {
	for _, p := range tiers() {
		all = append(all, rateCase{p, "ssd"}, rateCase{p, "hdd"})
	}
	return all
}

// floor measures how much a backup does beside a foreground that never pauses.
func (b *bench) floor(ctx context.Context) error {
	for round := range b.runs {
		for _, r := range turn(rateCases(), round) {
			if err := b.floorOne(ctx, r, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) floorOne(ctx context.Context, r rateCase, round int) (err error) {
	c := b.tidemark(r.policy.String(), "--medium", r.medium)
	if err := b.disk.Settle(ctx, true); err != nil {
		return err
	}
	stop, err := b.disk.Background(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	p, err := b.disk.Fresh(&c, c.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.disk.Clear()) }()
	j, err := b.disk.Start(ctx, &c, p, b.disk.At("source"))
	if err != nil {
		return err
	}
	defer j.Kill()
	if err := rig.Pause(ctx, 2*time.Second); err != nil { // opening the repository takes memory and processor
		return err
	}
	from := time.Now()
	before, _ := j.Moved()
	if err := rig.Pause(ctx, b.stretched(6*time.Second)); err != nil {
		return err
	}
	after, alive := j.Moved()
	to := time.Now()
	if !alive {
		if j.Err != nil {
			return j.Err
		}
		b.problem("3: %s: in round %d the backup came to its end beside a foreground without a break", r, round)
		return nil
	}
	floor := 1 / period(r.policy, r.medium).Seconds()
	values := map[string]float64{
		"floor": floor, "MiB per second": float64(after-before) / (1 << 20) / to.Sub(from).Seconds(),
	}
	if g, span, err := j.Events.Since(from, to); err != nil {
		b.problem("3: %s: %v", r, err)
	} else if g.Engaged > 0 {
		values["rate"] = float64(g.Charged) / g.Engaged
		values["of floor"] = 100 * values["rate"] / floor
		values["in windows"] = 100 * g.Engaged / span.Seconds()
		if g.Asleep[r.policy.Tier()] == 0 && rig.Asleep(&g) > 0 {
			b.problem("3: %s: the backup slept at another tier than that of its policy, as if the user were idle", r)
		}
	}
	b.add(floorNumber, r.String(), round, values)
	return nil
}

func (b *bench) floorTable() string {
	var rows [][]string
	for _, r := range rateCases() {
		name := r.String()
		if len(b.Of(floorNumber, name)) == 0 {
			continue
		}
		floor := b.Value(floorNumber, name, "floor")
		largest := float64(iopolicy.Default().MaxIOSize) / (1 << 20)
		rows = append(rows, []string{
			r.policy.String(), r.medium, digits(floor), digits(b.Value(floorNumber, name, "rate")),
			percent(b.Value(floorNumber, name, "of floor"), 1), percent(b.Value(floorNumber, name, "in windows"), 1),
			digits(floor * largest),
			digits(b.Value(floorNumber, name, "MiB per second")),
		})
	}
	return benchkit.Table([]string{"policy", "medium", "floor, I/Os per s", "measured", "of the floor", "of the time in windows",
		"at most, MiB/s", "measured, MiB/s"}, rows...)
}
