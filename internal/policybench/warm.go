package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/benchkit"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
)

// warmNumber is the number of the measurement of an unchanged backup from a warm cache.
const warmNumber = 7

// warmLimit is how long an unchanged backup may take, which takes a second alone.
const warmLimit = 10 * time.Second

// warm measures an unchanged backup whose metadata is in the page cache, alone and beside a foreground without a break. It
// does so with the policy off as well: what that loses beside the foreground, it loses to the foreground's use of the
// processor.
func (b *bench) warm(ctx context.Context) error {
	off := b.tidemark("off")
	list := []rig.Candidate{off, b.tidemark("utility"), b.tidemark("throttle")}
	tree := b.disk.At("many")
	p, err := b.disk.Fresh(&off, "warm")
	if err != nil {
		return err
	}
	for range 2 { // the first backup, and one that warms what an unchanged one needs
		if _, err := b.disk.Backup(ctx, &off, p, tree, patience); err != nil {
			return err
		}
	}
	if err := b.disk.Settle(ctx, false); err != nil {
		return err
	}
	for round := range 3 * b.runs {
		values := map[string]map[string]float64{}
		for _, c := range list {
			values[c.Name] = map[string]float64{}
		}
		if err := b.warmRound(ctx, turn(list, round), p, tree, alone, values); err != nil {
			return err
		}
		stop, err := b.disk.Background(ctx)
		if err != nil {
			return err
		}
		err = rig.Pause(ctx, 700*time.Millisecond) // longer than any window
		if err == nil {
			err = b.warmRound(ctx, turn(list, round), p, tree, "beside", values)
		}
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
		for _, c := range list {
			v := values[c.Name]
			v["ratio"] = v["beside"] / v[alone]
			b.add(warmNumber, c.Name, round, v)
		}
	}
	return b.disk.Clear()
}

// warmRound does one backup by each candidate.
func (b *bench) warmRound(ctx context.Context, list []rig.Candidate, p rig.Place, tree, how string, values map[string]map[string]float64) error {
	for _, c := range list {
		j, err := b.disk.Backup(ctx, &c, p, tree, warmLimit)
		v := values[c.Name]
		if errors.Is(err, rig.ErrTooLong) {
			b.problem("7: %s, %s: not over after %v, which stands for its time", c.Name, how, warmLimit)
			v[how] = warmLimit.Seconds()
			if gate, _, err := j.Events.Since(time.Time{}, time.Now()); err == nil { // but for its first second
				v["asleep "+how], v["operations "+how] = rig.Asleep(&gate), float64(gate.Charged)
			}
			continue
		}
		if err != nil {
			return err
		}
		v[how] = j.Took.Seconds()
		if gate, _, err := j.Events.End(); err == nil {
			v["asleep "+how], v["operations "+how] = rig.Asleep(&gate), float64(gate.Charged)
		} else if !slices.Contains([]string{"off"}, c.Name) {
			b.problem("7: %s: %v", c.Name, err)
		}
	}
	return nil
}

func (b *bench) warmTable() string {
	var rows [][]string
	for _, name := range b.Cases(warmNumber) {
		value := func(key string) float64 { return b.Value(warmNumber, name, key) }
		rows = append(rows, []string{name, number(value(alone), 2), number(value("beside"), 2), number(value("ratio"), 2),
			number(value("asleep beside"), 2), number(value("operations beside"), 0)})
	}
	return benchkit.Table([]string{"policy", "alone, s", "beside, s", "ratio", "asleep, s", "operations at the device"}, rows...)
}
