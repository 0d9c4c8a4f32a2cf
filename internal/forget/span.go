package forget

import (
	"fmt"
	"time"
)

// Span is a unit of calendar time: a policy keeps the newest snapshot of each. Rules, flags and words of policies
// follow from the table in describe.
type Span int

// The spans, from the shortest.
const (
	Hourly Span = iota
	Daily
	Weekly
	Monthly
	Yearly
	spans = iota
)

// Spans has a value for each Span.
type Spans[T any] [spans]T

// WithinPrefix stands before the name of a span in rules that keep the newest of each within a time.
const WithinPrefix = "within-"

// AllSpans returns the spans from the shortest.
func AllSpans() (all []Span) {
	for s := range Span(spans) {
		all = append(all, s)
	}
	return all
}

// describe returns the adverb, the noun, and the layout in which a time names its span; "": the week of ISO 8601.
func (s Span) describe() (adverb, noun, layout string) {
	row := [spans][3]string{
		Hourly:  {"hourly", "hour", "2006-01-02 15 -0700"}, // with the zone: in autumn one hour occurs twice
		Daily:   {"daily", "day", time.DateOnly},
		Weekly:  {"weekly", "week", ""},
		Monthly: {"monthly", "month", "2006-01"},
		Yearly:  {"yearly", "year", "2006"},
	}[s]
	return row[0], row[1], row[2]
}

// String returns the name of s in policies: "hourly".
func (s Span) String() string {
	adverb, _, _ := s.describe()
	return adverb
}

// Noun returns the unit of s: "hour".
func (s Span) Noun() string {
	_, noun, _ := s.describe()
	return noun
}

// of returns which span a time lies in. Two times in the same one have the same result.
func (s Span) of(t time.Time) string {
	if _, _, layout := s.describe(); layout != "" {
		return t.Format(layout)
	}
	year, week := t.ISOWeek()
	return fmt.Sprint(year, " ", week)
}
