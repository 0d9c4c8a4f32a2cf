package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// median returns the middle value, or the mean of the two in the middle; NaN of none.
func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	return (values[n/2] + values[(n-1)/2]) / 2
}

// cases returns the names of the cases of a measurement, in the order in which they came first.
func (b *bench) cases(measurement int) (names []string) {
	for _, r := range b.records {
		if r.Measurement == measurement && !slices.Contains(names, r.Case) {
			names = append(names, r.Case)
		}
	}
	return names
}

// values are those of a case, by round.
func (b *bench) values(measurement int, name, key string) map[int]float64 {
	out := map[int]float64{}
	for _, r := range b.records {
		if v, ok := r.Values[key]; ok && r.Measurement == measurement && r.Case == name {
			out[r.Round] = v
		}
	}
	return out
}

// value is the median of a value over the rounds of a case; NaN if it was never measured.
func (b *bench) value(measurement int, name, key string) float64 {
	var all []float64
	for _, v := range b.values(measurement, name, key) {
		all = append(all, v)
	}
	return median(all)
}

// ratio is the median over the rounds of how a case compares with another one of the same round.
func (b *bench) ratio(measurement int, name, base, key string) float64 {
	bases := b.values(measurement, base, key)
	var all []float64
	for round, v := range b.values(measurement, name, key) {
		if w, ok := bases[round]; ok && w != 0 {
			all = append(all, v/w)
		}
	}
	return median(all)
}

// table lays out lines of cells for a page of the documentation.
func table(lines ...[]string) string {
	var out strings.Builder
	for i, line := range lines {
		out.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return out.String()
}

// number writes three digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// compared is a table of one value of each case, and how it compares with that of the first.
func (b *bench) compared(measurement int, key, unit string) string {
	names := b.cases(measurement)
	lines := [][]string{{"", unit, "of the first"}}
	for _, name := range names {
		lines = append(lines, []string{
			name, number(b.value(measurement, name, key)), number(b.ratio(measurement, name, names[0], key)),
		})
	}
	return table(lines...)
}

func (b *bench) packsTable() string { return b.compared(ofPacks, "rate", "MB/s") }
func (b *bench) lineTable() string  { return b.compared(ofLine, "rate", "MB/s") }
func (b *bench) smallTable() string { return b.compared(ofSmall, "files", "files/s") }

func (b *bench) backupsTable() string {
	lines := [][]string{{"", "s", "of the folder's", "processor, s", "of the folder's"}}
	for _, name := range b.cases(ofBackups) {
		_, kind, _ := cutLast(name, ", ")
		base := "folder, " + kind
		lines = append(lines, []string{
			name, number(b.value(ofBackups, name, "seconds")), number(b.ratio(ofBackups, name, base, "seconds")),
			number(b.value(ofBackups, name, "cpu")), number(b.ratio(ofBackups, name, base, "cpu")),
		})
	}
	return table(lines...)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (b *bench) countsTable() string {
	lines := [][]string{{"", "requests", "waited for in a row", "which"}}
	for _, name := range b.cases(ofCounts) {
		var which []string
		for _, command := range commandNames() {
			if n := b.value(ofCounts, name, command); !math.IsNaN(n) {
				which = append(which, number(n)+" "+command)
			}
		}
		lines = append(lines, []string{
			name, number(b.value(ofCounts, name, "requests")), number(b.value(ofCounts, name, "round trips")),
			strings.Join(which, ", "),
		})
	}
	return table(lines...)
}

func (b *bench) steadinessTable() string {
	lines := [][]string{{"", "p50, ms", "p90, ms", "worst window of the best", fmt.Sprintf("windows above %.1f times", strained)}}
	for _, name := range b.cases(ofSteadiness) {
		lines = append(lines, []string{
			name, number(b.value(ofSteadiness, name, "p50")), number(b.value(ofSteadiness, name, "p90")),
			number(b.value(ofSteadiness, name, "most") / b.value(ofSteadiness, name, "least")),
			fmt.Sprintf("%.0f %%", 100*b.value(ofSteadiness, name, "strained")),
		})
	}
	return table(lines...)
}
