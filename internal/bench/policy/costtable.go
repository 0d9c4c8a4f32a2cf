package policy

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// pooled returns quantiles in milliseconds over all rounds of a case, and of how many requests.
func (b *bench) pooled(name string) (p50, p99 float64, requests int) {
	all := slices.Sorted(slices.Values(b.pools[name]))
	if len(all) == 0 {
		return math.NaN(), math.NaN(), 0
	}
	return milliseconds(rig.Quantile(all, 0.5)), milliseconds(rig.Quantile(all, 0.99)), len(all)
}

// quantiles returns the cells of p50, p99 and the number of requests. A p99 of few requests is marked.
func (b *bench) quantiles(name string) []string {
	p50, p99, n := b.pooled(name)
	if n == 0 {
		return []string{"", "", ""}
	}
	text := digits(p99)
	if n < enough {
		text += " (few)"
	}
	return []string{digits(p50), text, fmt.Sprint(n)}
}

// worstSecond returns the cell of isol-01: the worst second of a foreground as a part of the median second of the one
// alone.
func (b *bench) worstSecond(name, base string) string {
	var parts []float64
	for _, r := range b.Of(partCost, name) {
		for _, alone := range b.Of(partCost, base) {
			worst, ok := r.Values["worst second"]
			if median := alone.Values["median second"]; ok && median > 0 && r.Round == alone.Round {
				parts = append(parts, 100*worst/median)
			}
		}
	}
	return percent(kit.Median(parts), 0)
}

// isolation returns the cells of isol-01: its own, with that of the sham in brackets, and the worst second as a part of
// the sham's. A case without a backup has its own only.
func (b *bench) isolation(foreground, name string) []string {
	base, again := foreground+" / "+alone, foreground+" / "+sham
	cell := b.worstSecond(name, base)
	if name == base || name == again || len(b.Of(partCost, again)) == 0 {
		return []string{cell, ""}
	}
	return []string{
		fmt.Sprintf("%s (%s)", cell, b.worstSecond(again, base)),
		percent(100*b.Ratio(partCost, name, again, "worst second"), 0),
	}
}

// speeds returns the speed of a backup beside a foreground as a part of that alone, by round. base is how many seconds
// it takes alone.
func (b *bench) speeds(part, name string, base float64) map[int]float64 {
	parts := map[int]float64{}
	for _, r := range b.Of(part, name) {
		if took, ok := r.Values["took"]; ok {
			parts[r.Round] = base / took
		} else if done, ok := r.Values["percent done"]; ok {
			parts[r.Round] = done / 100 * base / b.bound.Seconds()
		}
	}
	return parts
}

// kept returns the speed of a foreground in a case as a part of its speed alone, by round.
func (b *bench) kept(part string, f *rig.Foreground, name string) map[int]float64 {
	parts := map[int]float64{}
	for _, r := range b.Of(part, name) {
		for _, base := range b.Of(part, f.Name+" / "+alone) {
			v, byItself := r.Values[f.Unit], base.Values[f.Unit]
			if f.Unit == "s" {
				v, byItself = byItself, v
			}
			if r.Round == base.Round && byItself > 0 {
				parts[r.Round] = v / byItself
			}
		}
	}
	return parts
}

// backupTimes returns the cells of a backup's time beside a foreground, alone, and the ratio.
func (b *bench) backupTimes(foreground, step, candidate string) []string {
	name, base := caseName(foreground, step, candidate), caseName(noForeground, step, candidate)
	byItself := b.Value(partCost, base, "took")
	cells := []string{number(b.Value(partCost, name, "took"), 2), number(byItself, 2)}
	if done := b.Value(partCost, name, "percent done"); !math.IsNaN(done) { // in some round
		cells[0] = fmt.Sprintf("> %.0f (%.0f %% done)", b.bound.Seconds(), done)
		return append(cells, "> "+number(b.bound.Seconds()/byItself, 1))
	}
	return append(cells, number(b.Ratio(partCost, name, base, "took"), 2))
}

func (b *bench) costTable() string {
	out := "Backups alone:\n\n" + b.backupsAloneTable()
	var rows [][]string
	for _, f := range b.chosen() {
		base := f.Name + " / " + alone
		row := func(name, step, beside string, times []string) {
			if len(b.Of(partCost, name)) == 0 {
				return
			}
			_, p99, _ := b.pooled(name)
			_, p99Alone, _ := b.pooled(base)
			cells := []string{f.Name, step, beside, digits(b.Value(partCost, name, f.Unit)) + " " + f.Unit}
			kept, worse := "", ""
			if name != base {
				kept = percent(100*median(b.kept(partCost, f, name)), 1)
				if f.Unit != "s" {
					worse = number(p99/p99Alone, 2)
				}
			}
			rows = append(rows, slices.Concat(cells, []string{kept}, b.isolation(f.Name, name), b.quantiles(name),
				[]string{worse}, times))
		}
		none := []string{"", "", "", ""}
		row(base, "", alone, none)
		row(f.Name+" / "+sham, "", alone+" again", none)
		for _, step := range b.steps {
			for _, c := range b.backups {
				name, base := caseName(f.Name, step, c.Name), b.Value(partCost, caseName(noForeground, step, c.Name), "took")
				row(name, step, c.Name,
					append(b.backupTimes(f.Name, step, c.Name), percent(100*median(b.speeds(partCost, name, base)), 0)))
			}
		}
	}
	return out + "\nForegrounds, and backups beside them:\n\n" + kit.Table([]string{
		"foreground", "backup", "beside", "throughput", "kept", "isol-01", "/ again", "p50 ms", "p99 ms", "requests",
		"p99 / alone", "backup, s", "alone, s", "ratio", "speed",
	}, rows...) + fmt.Sprintf("\nLatencies are of all rounds together; (few): of fewer than %d requests. kept: "+
		"median of the ratios to alone, round by round. isol-01: the worst second as a part of the median second alone, "+
		"with that of the foreground alone again in brackets; / again: as a part of the worst second alone again. "+
		"speed: of the backup, as a part of its own alone.\n", enough)
}

// backupsAloneTable compares the candidates without a foreground.
func (b *bench) backupsAloneTable() string {
	head := []string{"candidate"}
	for _, step := range b.steps {
		head = append(head, step+", s", "/ off", "asleep")
	}
	var rows [][]string
	for _, c := range b.backups {
		row := []string{c.Name}
		for _, step := range b.steps {
			name := caseName(noForeground, step, c.Name)
			row = append(row, number(b.Value(partCost, name, "took"), 2),
				number(b.Ratio(partCost, name, caseName(noForeground, step, "off"), "took"), 3),
				percent(b.Value(partCost, name, "asleep"), 2))
		}
		rows = append(rows, row)
	}
	return kit.Table(head, rows...)
}
