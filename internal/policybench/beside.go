package main

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-backup/tidemark/internal/benchkit"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
)

// besideNumber is the number of the measurement of foregrounds.
const besideNumber = 2

// alone is the case of a foreground without a backup.
const alone = "alone"

// beside measures each foreground alone and beside each backup. One backup serves all foregrounds of a round, one after
// the other; when it ends, the next one begins.
func (b *bench) beside(ctx context.Context) error {
	names := append([]*rig.Candidate{nil}, pointers(b.candidates)...)
	for round := range b.runs {
		for _, c := range turn(names, round) {
			if err := b.disk.Settle(ctx, true); err != nil {
				return err
			}
			if err := b.besideOne(ctx, c, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) besideOne(ctx context.Context, c *rig.Candidate, round int) (err error) {
	name, keeper := alone, (*rig.Endless)(nil)
	if c != nil {
		name = c.Name
		if keeper, _, err = b.disk.Keep(ctx, c, b.disk.At("source")); keeper == nil {
			return err
		}
	}
	var times []rig.Span
	for _, l := range turn(rig.Loads(), round) {
		if err != nil {
			break
		}
		at := rig.Span{From: time.Now()}
		var values map[string]float64
		if values, err = b.disk.RunFio(ctx, &l, b.stretched(l.Time)); err == nil {
			at.To = time.Now()
			times = append(times, at)
			b.add(besideNumber, l.Name+" / "+name, round, values)
		}
	}
	if keeper == nil {
		return err
	}
	err = errors.Join(err, keeper.Stop())
	for _, at := range times {
		if part := rig.Missing(keeper.Gaps, at.From, at.To); part > 0.1 {
			b.problem("2: in round %d %s did not run for %.0f %% of a foreground's time; a larger -size helps", round, name, part*100)
		}
	}
	return err
}

func pointers[T any](list []T) (out []*T) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

func (b *bench) besideTable() string {
	var rows [][]string
	for _, l := range rig.Loads() {
		base := l.Name + " / " + alone
		cases := []string{alone}
		for _, c := range b.candidates {
			cases = append(cases, c.Name)
		}
		for _, c := range cases {
			name := l.Name + " / " + c
			if len(b.Of(besideNumber, name)) == 0 {
				continue
			}
			row := []string{l.Name, c, digits(b.Value(besideNumber, name, "rate")) + " " + l.Unit}
			row = append(row, digits(b.Value(besideNumber, name, "p50")), digits(b.Value(besideNumber, name, "p99")))
			if c == alone {
				row = append(row, "", "")
			} else {
				row = append(row, percent(100*b.Ratio(besideNumber, name, base, "rate"), 1),
					number(b.Ratio(besideNumber, name, base, "p99"), 2))
			}
			rows = append(rows, row)
		}
	}
	return benchkit.Table([]string{"foreground", "beside", "throughput", "p50 ms", "p99 ms", "of alone", "p99 / alone"}, rows...)
}
