// Package forget decides which snapshots are kept and drops the others. Their data stays until a prune.
//
// The package refuses to know what else needs a snapshot: nothing does. A backup that compares with one that is dropped
// meanwhile is not disturbed, since nothing of it is removed while the backup runs.
package forget

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
)

// Errors of what a user asks for.
var (
	// ErrNoPolicy: neither a policy nor a snapshot is named.
	ErrNoPolicy = errors.New("nothing says which snapshots to keep: give at least one --keep option, such as --keep-daily 7, " +
		"or name the snapshots to drop by their IDs")
	// ErrNothingKept: a policy that keeps nothing.
	ErrNothingKept = errors.New("this policy keeps no snapshot at all: give at least one --keep option a number above 0; to " +
		"drop snapshots all the same, name them by their IDs")
	// ErrPeriod: not a span of time.
	ErrPeriod = errors.New("write a span of time as a number and a unit, from the longest to the shortest, such as 1y6m, 2w, 10d or 36h")
)

// Policy says which snapshots of a group are kept. A snapshot stays if any of its parts keeps it.
type Policy struct {
	Last, Hourly, Daily, Weekly, Monthly, Yearly int        // of each of the newest so many hours, days, ... the newest; below 0: of all
	Within                                       Period     // all that are no older than this before the newest
	Tags                                         [][]string // those that have all tags of one of these lists
}

// Empty reports whether the policy says nothing.
func (p *Policy) Empty() bool {
	return p.Last == 0 && p.Hourly == 0 && p.Daily == 0 && p.Weekly == 0 && p.Monthly == 0 && p.Yearly == 0 &&
		p.Within == Period{} && len(p.Tags) == 0
}

// Period is a span of time by the calendar.
type Period struct{ Years, Months, Days, Hours int }

// ParsePeriod reads a span such as 1y6m10d2h or 2w.
func ParsePeriod(text string) (Period, error) {
	var p Period
	rest, units := text, "ymwdh"
	for rest != "" {
		i := strings.IndexAny(rest, "ymwdh")
		if i <= 0 {
			return Period{}, fmt.Errorf("%q: %w", text, ErrPeriod)
		}
		n, err := strconv.ParseUint(rest[:i], 10, 16)
		at := strings.IndexByte(units, rest[i])
		if err != nil || at < 0 {
			return Period{}, fmt.Errorf("%q: %w", text, ErrPeriod)
		}
		switch rest[i] {
		case 'y':
			p.Years = int(n)
		case 'm':
			p.Months = int(n)
		case 'w':
			p.Days = 7 * int(n)
		case 'd':
			p.Days += int(n)
		case 'h':
			p.Hours = int(n)
		}
		rest, units = rest[i+1:], units[at+1:]
	}
	if p == (Period{}) {
		return Period{}, fmt.Errorf("%q: %w", text, ErrPeriod)
	}
	return p, nil
}

// before returns the moment that lies the period before t.
func (p Period) before(t time.Time) time.Time {
	return t.AddDate(-p.Years, -p.Months, -p.Days).Add(-time.Duration(p.Hours) * time.Hour)
}

// Verdict is what becomes of a snapshot.
type Verdict struct {
	repo.Listed
	Keep    bool
	Reasons []string // why it is kept
}

// rule is one part of a policy that keeps the newest of each of so many spans of time.
type rule struct {
	name string
	left int
	span func(time.Time) string
	last string
}

func (p *Policy) rules() []*rule {
	week := func(t time.Time) string { y, w := t.ISOWeek(); return fmt.Sprint(y, " ", w) }
	layout := func(l string) func(time.Time) string { return func(t time.Time) string { return t.Format(l) } }
	return []*rule{
		{name: "hourly", left: p.Hourly, span: layout("2006-01-02 15")},
		{name: "daily", left: p.Daily, span: layout(time.DateOnly)},
		{name: "weekly", left: p.Weekly, span: week},
		{name: "monthly", left: p.Monthly, span: layout("2006-01")},
		{name: "yearly", left: p.Yearly, span: layout("2006")},
	}
}

// Apply judges the snapshots of one group. They must be readable. Hours and days are those of the location. Whatever the
// policy says, the newest is kept: to have none left is never what somebody means who asks to keep some.
func (p *Policy) Apply(group []repo.Listed, in *time.Location) []Verdict {
	verdicts := make([]Verdict, len(group))
	for i := range group {
		verdicts[i].Listed = group[i]
	}
	slices.SortStableFunc(verdicts, func(a, b Verdict) int { return moment(&b, in).Compare(moment(&a, in)) }) // newest first
	rules := p.rules()
	last := p.Last
	for i := range verdicts {
		v := &verdicts[i]
		at := moment(v, in)
		if last != 0 {
			last--
			v.keep("last")
		}
		for _, r := range rules {
			if span := r.span(at); r.left != 0 && span != r.last {
				r.last = span
				r.left--
				v.keep(r.name)
			}
		}
		if p.Within != (Period{}) && !at.Before(p.Within.before(moment(&verdicts[0], in))) {
			v.keep("within")
		}
		if len(p.Tags) > 0 && (repo.Filter{Tags: p.Tags}).Match(v.Snapshot) {
			v.keep("tags")
		}
	}
	if len(verdicts) > 0 && !slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Keep }) {
		verdicts[0].keep("newest")
	}
	return verdicts
}

func (v *Verdict) keep(why string) { v.Keep, v.Reasons = true, append(v.Reasons, why) }

func moment(v *Verdict, in *time.Location) time.Time {
	return time.Unix(v.Snapshot.Time.Sec, int64(v.Snapshot.Time.Nsec)).In(in)
}
