package kit

import (
	"math"
	"slices"
	"strings"
)

// Record is one case of one measurement in one round.
type Record struct {
	Measurement string             `json:"measurement"`
	Case        string             `json:"case"`
	Round       int                `json:"round"`
	Values      map[string]float64 `json:"values"`
}

// Series holds measurements in their order.
type Series struct {
	Records []Record
}

// Add records the values of a case.
func (s *Series) Add(measurement string, name string, round int, values map[string]float64) {
	s.Records = append(s.Records, Record{measurement, name, round, values})
}

// Of returns the records of a case.
func (s *Series) Of(measurement string, name string) (out []Record) {
	for _, r := range s.Records {
		if r.Measurement == measurement && r.Case == name {
			out = append(out, r)
		}
	}
	return out
}

// Cases returns the names of the cases of a measurement: those that are listed in that order, then others as they came.
func (s *Series) Cases(measurement string, listed ...string) (names []string) {
	for _, r := range s.Records {
		if r.Measurement == measurement && !slices.Contains(names, r.Case) {
			names = append(names, r.Case)
		}
	}
	rank := func(name string) int {
		if at := slices.Index(listed, name); at >= 0 {
			return at
		}
		return len(listed)
	}
	slices.SortStableFunc(names, func(x, y string) int { return rank(x) - rank(y) })
	return names
}

// Value is the median of a value over the rounds of a case; NaN if it was never measured.
func (s *Series) Value(measurement string, name, key string) float64 {
	var values []float64
	for _, r := range s.Of(measurement, name) {
		if v, ok := r.Values[key]; ok {
			values = append(values, v)
		}
	}
	return Median(values)
}

// Ratio is the median over the rounds of the ratio of a case to another one in the same round; NaN if there is no such
// round.
func (s *Series) Ratio(measurement string, name, base, key string) float64 {
	var values []float64
	for _, r := range s.Of(measurement, name) {
		for _, b := range s.Of(measurement, base) {
			v, ok := r.Values[key]
			w, also := b.Values[key]
			if ok && also && r.Round == b.Round && w != 0 {
				values = append(values, v/w)
			}
		}
	}
	return Median(values)
}

// Median returns the middle value, or the mean of the two in the middle; NaN of none.
func Median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	return (values[n/2] + values[(n-1)/2]) / 2
}

// Table lays out a table for a page of the documentation.
func Table(head []string, rows ...[]string) string {
	var out strings.Builder
	line := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	out.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		line(r)
	}
	return out.String()
}
