package main

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/benchkit"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
)

// The numbers of the measurements on an idle disk.
const (
	idleNumber   = 1
	alarmsNumber = 5
)

// patience is how long a backup may take that should take some seconds.
const patience = 3 * time.Minute

// idle measures a first and an unchanged backup by each candidate; and by those two that are compared more often, since
// their difference should be hard to see.
func (b *bench) idle(ctx context.Context) error {
	two := []rig.Candidate{b.tidemark("off"), b.tidemark("throttle")}
	if err := b.rehearse(ctx); err != nil {
		return err
	}
	for round := range 3 * b.runs {
		list := b.candidates
		if round >= b.runs {
			list = two
		}
		for _, c := range turn(list, round) {
			if err := b.twice(ctx, idleNumber, &c, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// alarms looks at how long a backup slept on an idle disk. The first measurement has found out.
func (b *bench) alarms(ctx context.Context) error {
	if len(b.Of(idleNumber, "throttle")) > 0 {
		return nil
	}
	if err := b.rehearse(ctx); err != nil {
		return err
	}
	for round := range 3 * b.runs {
		for _, c := range turn([]rig.Candidate{b.tidemark("utility"), b.tidemark("throttle")}, round) {
			if err := b.twice(ctx, alarmsNumber, &c, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// rehearse does a backup that does not count: the first writes on a new disk take longer than all later ones.
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
func (b *bench) twice(ctx context.Context, measurement int, c *rig.Candidate, round int) error {
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
			b.problem("%d: %s: %v", measurement, c.Name, err)
			continue
		}
		values[step+" asleep"] = 100 * rig.Asleep(&gate) / took.Seconds()
		values[step+" held"] = 100 * gate.Held / took.Seconds()
	}
	b.add(measurement, c.Name, round, values)
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
	for _, name := range b.Cases(idleNumber, b.names()...) {
		row := []string{name}
		for _, step := range []string{"first", "unchanged"} {
			row = append(row, number(b.Value(idleNumber, name, step), 2),
				number(b.Ratio(idleNumber, name, "off", step), 3))
		}
		rows = append(rows, row)
	}
	return benchkit.Table([]string{"policy", "first, s", "/ off", "unchanged, s", "/ off"}, rows...)
}

func (b *bench) alarmsTable() string {
	from := alarmsNumber
	if len(b.Of(idleNumber, "throttle")) > 0 {
		from = idleNumber
	}
	var rows [][]string
	for _, name := range b.Cases(from, b.names()...) {
		for _, step := range []string{"first", "unchanged"} {
			if !slices.Contains([]string{"utility", "throttle"}, name) {
				continue
			}
			worst := b.Value(from, name, step+" asleep")
			for _, r := range b.Of(from, name) {
				worst = max(worst, r.Values[step+" asleep"])
			}
			rows = append(rows, []string{name, step, percent(b.Value(from, name, step+" asleep"), 2), percent(worst, 2),
				percent(b.Value(from, name, step+" held"), 2)})
		}
	}
	return benchkit.Table([]string{"policy", "backup", "asleep, of the run", "worst round", "standing still, of the run"}, rows...)
}
