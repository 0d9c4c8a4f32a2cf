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

// of returns the records of a case, in the order of their rounds.
func (b *bench) of(measurement int, name string) (out []record) {
	for _, r := range b.records {
		if r.Measurement == measurement && r.Case == name {
			out = append(out, r)
		}
	}
	return out
}

// value is the median of a value over the rounds of a case; NaN if it was never measured.
func (b *bench) value(measurement int, name, key string) float64 {
	var values []float64
	for _, r := range b.of(measurement, name) {
		if v, ok := r.Values[key]; ok {
			values = append(values, v)
		}
	}
	return median(values)
}

// ratio is the median over the rounds of how a case compares with another one of the same round.
func (b *bench) ratio(measurement int, name, base, key string) float64 {
	var values []float64
	for _, r := range b.of(measurement, name) {
		for _, s := range b.of(measurement, base) {
			v, ok := r.Values[key]
			w, also := s.Values[key]
			if ok && also && r.Round == s.Round && w != 0 {
				values = append(values, v/w)
			}
		}
	}
	return median(values)
}

// cases returns the names of the cases of a measurement, in the order in which they are listed or, if not, came.
func (b *bench) cases(measurement int, listed []string) []string {
	var found []string
	for _, r := range b.records {
		if r.Measurement == measurement && !slices.Contains(found, r.Case) {
			found = append(found, r.Case)
		}
	}
	rank := func(name string) int {
		if at := slices.Index(listed, name); at >= 0 {
			return at
		}
		return len(listed)
	}
	slices.SortStableFunc(found, func(x, y string) int { return rank(x) - rank(y) })
	return found
}

// number formats a value with so many decimals; a dash if there is none.
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// percent formats a part of a hundred.
func percent(v float64, decimals int) string {
	if text := number(v, decimals); text != "–" {
		return text + " %"
	}
	return "–"
}

// digits formats a value with three significant digits or more.
func digits(v float64) string {
	switch {
	case v >= 100:
		return number(v, 0)
	case v >= 10:
		return number(v, 1)
	case v >= 1:
		return number(v, 2)
	default:
		return number(v, 3)
	}
}

// markdown lays out a table.
func markdown(head []string, rows [][]string) string {
	var out strings.Builder
	line := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	out.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		line(r)
	}
	return out.String()
}
