// Package keep has the options that make the policy of a forget, in a table, so that none of them is spelled out twice. It
// refuses to know what a policy does.
package keep

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/forget"
)

// prefix is how the name of every option begins that says what to keep.
const prefix = "keep-"

// Tag is the option that keeps snapshots by their tags. Its values are read like those that choose snapshots elsewhere, so
// it is for the caller to register.
const Tag = prefix + "tag"

// Register adds the options to a command; they change the policy.
func Register(flags *pflag.FlagSet, p *forget.Policy) {
	flags.Var((*count)(&p.Last), prefix+"last", "keep the newest n, or unlimited")
	spans := []struct {
		adverb, noun string
		newest       *int
		recent       *forget.Period
	}{
		{"hourly", "hour", &p.Newest.Hourly, &p.Recent.Hourly},
		{"daily", "day", &p.Newest.Daily, &p.Recent.Daily},
		{"weekly", "week", &p.Newest.Weekly, &p.Recent.Weekly},
		{"monthly", "month", &p.Newest.Monthly, &p.Recent.Monthly},
		{"yearly", "year", &p.Newest.Yearly, &p.Recent.Yearly},
	}
	for _, s := range spans {
		flags.Var((*count)(s.newest), prefix+s.adverb,
			"keep the newest of each of the last n "+s.noun+"s that have one, or unlimited")
	}
	flags.Var((*period)(&p.Within), prefix+"within",
		"keep all that are no older than this before the newest, such as 1y6m, 2w or 36h")
	for _, s := range spans {
		flags.Var((*period)(s.recent), prefix+"within-"+s.adverb,
			"of those no older than this before the newest, keep the newest of each "+s.noun)
	}
}

// Given reports whether any of them was given, or that for tags.
func Given(flags *pflag.FlagSet) (given bool) {
	flags.Visit(func(f *pflag.Flag) { given = given || strings.HasPrefix(f.Name, prefix) })
	return given
}

// count is a number of snapshots, or all of them.
type count int

func (c *count) String() string {
	if *c < 0 {
		return "unlimited"
	}
	return strconv.Itoa(int(*c))
}

func (c *count) Type() string { return "n" }

func (c *count) Set(text string) error {
	if text == "unlimited" {
		*c = -1
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("%q: write a number, or unlimited", text)
	}
	*c = count(n)
	return nil
}

// period is a span of time by the calendar.
type period forget.Period

func (p *period) String() string { return forget.Period(*p).String() }

func (p *period) Type() string { return "time" }

func (p *period) Set(text string) error {
	parsed, err := forget.ParsePeriod(text)
	if err == nil {
		*p = period(parsed)
	}
	return err
}
