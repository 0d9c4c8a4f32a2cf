package policy

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// patience is how long a backup may take that should take some seconds.
const patience = 3 * time.Minute

// idle measures a first and an unchanged backup by each candidate; and by those two that are compared more
// pollInterval, since their difference should be hard to see.
func (b *bench) idle(ctx context.Context) error {
	two := []rig.Candidate{b.tidemark("off"), b.tidemark("throttle")}
	if err := b.rehearse(ctx); err != nil {
		return err
	}
	for round := range 3 * b.rounds {
		list := b.candidates
		if round >= b.rounds {
			list = two
		}
		for _, c := range rotate(list, round) {
			if err := b.twice(ctx, &c, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// rehearse runs a backup that is not counted: the first writes on a new disk take longer than all later ones.
func (b *bench) rehearse(ctx context.Context) error {
	c := b.tidemark("off")
	p, err := b.disk.Fresh(&c, "rehearsal")
	if err != nil {
		return err
	}
	if _, err := b.disk.Backup(ctx, &c, p, b.disk.At("source", "a"), patience); err != nil {
		return err
	}
	return b.disk.Clear()
}

// twice does a first backup and an unchanged one, each from cold caches.
func (b *bench) twice(ctx context.Context, c *rig.Candidate, round int) error {
	p, err := b.disk.Fresh(c, c.Name)
	if err != nil {
		return err
	}
	values := map[string]float64{}
	for _, step := range []string{"first", "unchanged"} {
		if err := b.disk.Settle(ctx, true); err != nil {
			return err
		}
		j, err := b.disk.Backup(ctx, c, p, b.disk.At("source", "a"), patience)
		if err != nil {
			return err
		}
		values[step] = j.Took.Seconds()
		if c.Tool != "tidemark" {
			continue
		}
		gate, took, err := j.Events.End()
		if err != nil {
			b.problem("idle: %s: %v", c.Name, err)
			continue
		}
		values[step+" asleep"] = 100 * rig.Asleep(&gate) / took.Seconds()
		values[step+" held"] = 100 * gate.Held / took.Seconds()
	}
	b.add(partIdle, c.Name, round, values)
	return b.disk.Clear()
}

func (b *bench) names() (out []string) {
	for _, c := range b.candidates {
		out = append(out, c.Name)
	}
	return out
}

func (b *bench) idleTable() string {
	var rows [][]string
	for _, name := range b.Cases(partIdle, b.names()...) {
		row := []string{name}
		for _, step := range []string{"first", "unchanged"} {
			row = append(row, number(b.Value(partIdle, name, step), 2),
				number(b.Ratio(partIdle, name, "off", step), 3))
		}
		rows = append(rows, row)
	}
	return kit.Table([]string{"policy", "first, s", "/ off", "unchanged, s", "/ off"}, rows...) +
		"\nFalse alarms:\n\n" + b.alarmsTable()
}

func (b *bench) alarmsTable() string {
	var rows [][]string
	for _, name := range b.Cases(partIdle, b.names()...) {
		for _, step := range []string{"first", "unchanged"} {
			if !slices.Contains([]string{"utility", "throttle"}, name) {
				continue
			}
			worst := b.Value(partIdle, name, step+" asleep")
			for _, r := range b.Of(partIdle, name) {
				worst = max(worst, r.Values[step+" asleep"])
			}
			rows = append(rows, []string{name, step, percent(b.Value(partIdle, name, step+" asleep"), 2), percent(worst, 2),
				percent(b.Value(partIdle, name, step+" held"), 2)})
		}
	}
	return kit.Table([]string{"policy", "backup", "asleep, of the run", "worst round", "standing still, of the run"},
		rows...)
}
