// Package forget decides which snapshots are kept and removes the others. Their data stays until a prune. A running
// backup may compare with a snapshot that is removed, because its data stays while the backup runs.
package forget

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
)

// Policy selects which snapshots of a group are kept. A snapshot stays if any field keeps it.
type Policy struct {
	Last   int           // how many of the newest; below 0: all
	Newest Spans[int]    // the newest of each hour, day, ... for so many of those that have one; below 0: of all
	Within Period        // all that are at most this much older than the newest
	Recent Spans[Period] // the newest of each hour, day, ... if at most this much older than the newest of all
	Tags   [][]string    // those that have all tags of one of these lists
	Spare  bool          // those with tags, and those that no job made; they do not count towards any limit
	// Doubted applies the policy also if the newest snapshot may lack data: see Doubt. Without it, then all are kept.
	Doubted bool
}

// Empty reports whether the policy has no rule.
func (p *Policy) Empty() bool {
	return p.Last == 0 && p.Newest == Spans[int]{} && p.Within == Period{} && p.Recent == Spans[Period]{} &&
		len(p.Tags) == 0
}

// Period is a span of calendar time.
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

// String formats the period for ParsePeriod; an empty one is "".
func (p Period) String() string {
	var b strings.Builder
	for _, part := range []struct {
		n    int
		unit byte
	}{{p.Years, 'y'}, {p.Months, 'm'}, {p.Days, 'd'}, {p.Hours, 'h'}} {
		if part.n > 0 {
			fmt.Fprintf(&b, "%d%c", part.n, part.unit)
		}
	}
	return b.String()
}

// covers reports whether a time is at most the period before the newest one. An empty period covers nothing.
func (p Period) covers(at, newest time.Time) bool {
	return p != Period{} &&
		!at.Before(newest.AddDate(-p.Years, -p.Months, -p.Days).Add(-time.Duration(p.Hours)*time.Hour))
}

// partial is the reason to keep a partial snapshot.
const partial = "partial"

// future is the reason to keep a snapshot that is dated in the future.
const future = "future"

// Verdict is the decision about a snapshot.
type Verdict struct {
	repo.Listed
	Keep    bool
	Reasons []string // why it is kept
}

// Apply decides about the snapshots of one group, which must be readable. Hours and days are those of now's location.
// If the policy keeps none, the newest is kept.
//
// Snapshots dated more than a day after now (wrong clock) are kept and do not count towards any limit. Of each source,
// the newest snapshot that holds files of it is kept.
func (p *Policy) Apply(group []repo.Listed, now time.Time) []Verdict {
	const inexact = 24 * time.Hour
	in := now.Location()
	verdicts := make([]Verdict, len(group))
	for i := range group {
		verdicts[i].Listed = group[i]
	}
	slices.SortFunc(verdicts, func(a, b Verdict) int { // newest first; of equals the one that "latest" selects
		return cmp.Or(moment(&b, in).Compare(moment(&a, in)), b.ID.Compare(a.ID))
	})
	past := verdicts
	for len(past) > 0 && moment(&past[0], in).Sub(now) > inexact {
		past[0].keep(future)
		past = past[1:]
	}
	// Protected snapshots are kept in addition and do not count.
	var rest []*Verdict
	for i := range past {
		v := &past[i]
		switch {
		case v.Snapshot.Partial && !slices.Contains(v.Snapshot.Tags, repo.Protected):
			v.keep(partial) // see ReplacePartial
		case slices.Contains(v.Snapshot.Tags, repo.Protected):
			v.keep(repo.Protected)
		case p.Spare && len(v.Snapshot.Tags) > 0:
			v.keep("tagged")
		case p.Spare && v.Snapshot.Job == "":
			v.keep("by hand")
		default:
			rest = append(rest, v)
		}
	}
	p.judge(rest, in)
	keepSources(past)
	if p.Waits(verdicts) != "" {
		for i := range past {
			if !past[i].Keep {
				past[i].keep("waits")
			}
		}
	}
	return verdicts
}

// judge judges snapshots from the newest to the oldest.
func (p *Policy) judge(verdicts []*Verdict, in *time.Location) {
	last, left, seen := p.Last, p.Newest, Spans[string]{}
	for _, v := range verdicts {
		at, newest := moment(v, in), moment(verdicts[0], in)
		if last != 0 {
			last--
			v.keep("last")
		}
		for _, s := range AllSpans() {
			span := s.of(at)
			if span == seen[s] {
				continue
			}
			seen[s] = span
			if left[s] != 0 {
				left[s]--
				v.keep(s.String())
			}
			if p.Recent[s].covers(at, newest) {
				v.keep(WithinPrefix + s.String())
			}
		}
		if p.Within.covers(at, newest) {
			v.keep("within")
		}
		if len(p.Tags) > 0 && (repo.Filter{Tags: p.Tags}).Match(v.Snapshot) {
			v.keep("tags")
		}
	}
	if len(verdicts) > 0 && !slices.ContainsFunc(verdicts, func(v *Verdict) bool { return v.Keep }) {
		verdicts[0].keep("newest")
	}
}

// keepSources keeps for each source the newest snapshot that holds files of it, if none is kept otherwise. One that
// holds it whole comes before one that may lack data. The verdicts go from the newest to the oldest.
func keepSources(verdicts []Verdict) {
	done := map[string]bool{}
	for i := range verdicts {
		for _, source := range verdicts[i].Snapshot.Sources {
			if !done[source] {
				done[source] = true
				keepSource(verdicts, source)
			}
		}
	}
}

func keepSource(verdicts []Verdict, source string) {
	for _, doubted := range []bool{false, true} {
		newest := -1
		for i := range verdicts {
			h, known := verdicts[i].Snapshot.HeldOf(source)
			if !known || verdicts[i].Snapshot.Partial || h.Files == 0 || h.Doubted() && !doubted {
				continue
			}
			if verdicts[i].Keep {
				return
			}
			if newest < 0 {
				newest = i
			}
		}
		if newest >= 0 {
			verdicts[newest].keep("source")
			return
		}
	}
}

// ReplacePartial stops keeping the partial snapshots whose sources are in whole ones that are kept, of any group.
func ReplacePartial(groups ...[]Verdict) {
	var kept []repo.Listed
	for _, v := range slices.Concat(groups...) {
		if v.Keep && !v.Snapshot.Partial {
			kept = append(kept, v.Listed)
		}
	}
	for _, verdicts := range groups {
		for i := range verdicts {
			v := &verdicts[i]
			if slices.Equal(v.Reasons, []string{partial}) && repo.Superseded(v.Snapshot, kept) {
				v.Keep, v.Reasons = false, nil
			}
		}
	}
}

func (v *Verdict) keep(why string) { v.Keep, v.Reasons = true, append(v.Reasons, why) }

func moment(v *Verdict, in *time.Location) time.Time {
	return v.Snapshot.Time.Std().In(in)
}
