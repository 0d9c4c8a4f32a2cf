package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/forget"
)

// keepPrefix starts the name of each flag that keeps snapshots.
const keepPrefix = "keep-"

// keepTag is the flag that keeps snapshots by tags. The caller registers it, since it shares the type of --tag.
const keepTag = keepPrefix + "tag"

// registerKeep adds the flags that set the policy p, all but keepTag.
func registerKeep(flags *pflag.FlagSet, p *forget.Policy) {
	flags.Var((*keepCount)(&p.Last), keepPrefix+"last", "keep the newest n snapshots, or unlimited")
	for _, s := range forget.AllSpans() {
		flags.Var((*keepCount)(&p.Newest[s]), keepPrefix+s.String(),
			"keep the newest of each of n "+s.Noun()+"s; "+s.Noun()+"s without a snapshot do not count; or unlimited")
	}
	flags.Var((*keepPeriod)(&p.Within), keepPrefix+"within",
		"keep all of this time before the newest; such as 1y6m, 2w or 36h")
	for _, s := range forget.AllSpans() {
		name := keepPrefix + forget.WithinPrefix + s.String()
		flags.Var((*keepPeriod)(&p.Recent[s]), name,
			"keep the newest of each "+s.Noun()+" from this time before the newest one")
		help.Rare(flags, name)
	}
}

// keepGiven reports whether any flag of the policy was given.
func keepGiven(flags *pflag.FlagSet) (given bool) {
	flags.Visit(func(f *pflag.Flag) { given = given || strings.HasPrefix(f.Name, keepPrefix) })
	return given
}

// keepCount is a number of snapshots; below 0: all.
type keepCount int

func (c *keepCount) String() string {
	if *c < 0 {
		return "unlimited"
	}
	return strconv.Itoa(int(*c))
}

func (c *keepCount) Type() string { return "n" }

func (c *keepCount) Set(text string) error {
	n, err := forget.ParseCount(text)
	if err == nil {
		*c = keepCount(n)
	}
	return err //nolint:wrapcheck // it names the text
}

// keepPeriod is a span of calendar time.
type keepPeriod forget.Period

func (p *keepPeriod) String() string { return forget.Period(*p).String() }

func (p *keepPeriod) Type() string { return "time" }

func (p *keepPeriod) Set(text string) error {
	parsed, err := forget.ParsePeriod(text)
	if err == nil {
		*p = keepPeriod(parsed)
	}
	return err
}
