package main

import (
	"context"
	"errors"
	"time"
)

// besideNumber is the number of the measurement of foregrounds.
const besideNumber = 2

// alone is the case of a foreground without a backup.
const alone = "alone"

// beside measures each foreground alone and beside each backup. One backup serves all foregrounds of a round, one after
// the other; when it ends, the next one begins.
func (b *bench) beside(ctx context.Context) error {
	names := append([]*candidate{nil}, pointers(b.candidates)...)
	for round := range b.runs {
		for _, c := range turn(names, round) {
			if err := b.disk.settle(ctx, true); err != nil {
				return err
			}
			if err := b.besideOne(ctx, c, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) besideOne(ctx context.Context, c *candidate, round int) (err error) {
	name, keeper := alone, (*endless)(nil)
	if c != nil {
		name = c.name
		if keeper, _, err = b.keep(ctx, c, b.disk.at("source")); keeper == nil {
			return err
		}
	}
	var times []span
	for _, l := range turn(loads(), round) {
		if err != nil {
			break
		}
		at := span{from: time.Now()}
		var values map[string]float64
		if values, err = b.runFio(ctx, &l); err == nil {
			at.to = time.Now()
			times = append(times, at)
			b.add(besideNumber, l.name+" / "+name, round, values)
		}
	}
	if keeper == nil {
		return err
	}
	err = errors.Join(err, keeper.stop(b))
	for _, at := range times {
		if part := missing(keeper.gaps, at.from, at.to); part > 0.1 {
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
	for _, l := range loads() {
		base := l.name + " / " + alone
		cases := []string{alone}
		for _, c := range b.candidates {
			cases = append(cases, c.name)
		}
		for _, c := range cases {
			name := l.name + " / " + c
			if len(b.of(besideNumber, name)) == 0 {
				continue
			}
			row := []string{l.name, c, digits(b.value(besideNumber, name, "rate")) + " " + l.unit}
			row = append(row, digits(b.value(besideNumber, name, "p50")), digits(b.value(besideNumber, name, "p99")))
			if c == alone {
				row = append(row, "", "")
			} else {
				row = append(row, percent(100*b.ratio(besideNumber, name, base, "rate"), 1),
					number(b.ratio(besideNumber, name, base, "p99"), 2))
			}
			rows = append(rows, row)
		}
	}
	return markdown([]string{"foreground", "beside", "throughput", "p50 ms", "p99 ms", "of alone", "p99 / alone"}, rows)
}
