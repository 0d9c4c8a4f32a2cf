package policy

import (
	"context"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// pair measures a backup at standard and one at throttle, each alone, and then both: the one at throttle begins, the
// other joins it. Their sources are different halves; otherwise one would find the other's data in the page cache.
func (b *bench) pair(ctx context.Context) error {
	upper, lower := b.tidemark(iopolicy.Standard.String()), b.tidemark(iopolicy.Throttle.String())
	for round := range b.rounds {
		values := map[string]float64{}
		for _, one := range rotate([]struct {
			c    *rig.Candidate
			name string
			half string
		}{{&upper, "upper", "a"}, {&lower, "lower", "b"}}, round) {
			if err := b.disk.Settle(ctx, true); err != nil {
				return err
			}
			p, err := b.disk.Fresh(one.c, "pair "+one.name)
			if err != nil {
				return err
			}
			j, err := b.disk.Backup(ctx, one.c, p, b.disk.At("source", one.half), patience)
			if err != nil {
				return err
			}
			values[one.name+" alone"] = j.Took.Seconds()
			values[one.name+" alone MiB/s"] = float64(b.size/2) / (1 << 20) / j.Took.Seconds()
		}
		if err := b.together(ctx, &upper, &lower, values); err != nil {
			return err
		}
		b.add(partPair, "standard and throttle", round, values)
		if err := b.disk.Clear(); err != nil {
			return err
		}
	}
	return nil
}

// together runs both and measures while both run.
func (b *bench) together(ctx context.Context, upper, lower *rig.Candidate, values map[string]float64) (err error) {
	high, err := b.disk.Fresh(upper, "pair upper")
	if err != nil {
		return err
	}
	low, err := b.disk.Fresh(lower, "pair lower")
	if err != nil {
		return err
	}
	if err := b.disk.Settle(ctx, true); err != nil {
		return err
	}
	worse, err := b.disk.Start(ctx, lower, low, b.disk.At("source", "b"))
	if err != nil {
		return err
	}
	defer worse.Kill()
	if err := worse.Awake(ctx); err != nil {
		return err
	}
	better, err := b.disk.Start(ctx, upper, high, b.disk.At("source", "a"))
	if err != nil {
		return err
	}
	defer better.Kill()
	if err := better.Awake(ctx); err != nil {
		return err
	}
	from := time.Now()
	before, alive := worse.Moved()
	<-better.Done
	to := time.Now()
	after, still := worse.Moved()
	if better.Err != nil {
		return better.Err
	}
	if !alive || !still {
		b.problem("pair: the backup at throttle ended before the one at standard")
		return worse.Err
	}
	values["upper together"] = better.Took.Seconds()
	values["upper ratio"] = better.Took.Seconds() / values["upper alone"]
	values["lower together MiB/s"] = float64(after-before) / (1 << 20) / to.Sub(from).Seconds()
	if g, _, err := better.Events.End(); err == nil {
		values["upper asleep"] = rig.Asleep(&g)
	} else {
		b.problem("pair: standard: %v", err)
	}
	g, apart, err := worse.Events.Since(from, to)
	if err != nil {
		b.problem("pair: throttle: %v", err)
		return nil
	}
	floor := 1 / period(iopolicy.Throttle, b.medium).Seconds()
	values["lower in windows"] = 100 * g.Engaged / apart.Seconds()
	values["lower per second"] = float64(g.Charged) / apart.Seconds()
	values["lower of floor"] = 100 * values["lower per second"] / floor
	return nil
}

func (b *bench) pairTable() string {
	const name = "standard and throttle"
	value := func(key string, decimals int) string { return number(b.Value(partPair, name, key), decimals) }
	largest := float64(iopolicy.DefaultSettings().MaxIOSize) / (1 << 20)
	floor := 1 / period(iopolicy.Throttle, b.medium).Seconds()
	return kit.Table([]string{"", "standard", "throttle"},
		[]string{"alone, s", value("upper alone", 2), value("lower alone", 2)},
		[]string{"alone, MiB of the source per s", value("upper alone MiB/s", 0), value("lower alone MiB/s", 0)},
		[]string{"together, s", value("upper together", 2), "goes on afterwards"},
		[]string{"together / alone", value("upper ratio", 2), ""},
		[]string{"together, MiB of I/O per s", "", value("lower together MiB/s", 2) + " (at most " +
			digits(floor*largest) + ")"},
		[]string{"together, asleep, s", value("upper asleep", 2), ""},
		[]string{"together, part of the time in windows", "", percent(b.Value(partPair, name, "lower in windows"), 1)},
		[]string{"operations at the device per s", "", value("lower per second", 1) + " (floor " + digits(floor) + ")"},
		[]string{"of the floor", "", percent(b.Value(partPair, name, "lower of floor"), 1)},
	)
}
