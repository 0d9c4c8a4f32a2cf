package cli

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
)

func parseKeep(args ...string) (p forget.Policy, given bool, err error) {
	flags := pflag.NewFlagSet("forget", pflag.ContinueOnError)
	registerKeep(flags, &p)
	flags.Bool("prune", false, "")
	err = flags.Parse(args)
	return p, keepGiven(flags), err
}

// TestEachKeepFlagSetsItsField gives each flag another value.
func TestEachKeepFlagSetsItsField(t *testing.T) {
	p, given, err := parseKeep("--keep-last", "1", "--keep-hourly=2", "--keep-daily=3", "--keep-weekly=4",
		"--keep-monthly=5",
		"--keep-yearly=unlimited", "--keep-within=1h", "--keep-within-hourly=2h", "--keep-within-daily=3d",
		"--keep-within-weekly=1w", "--keep-within-monthly=5m", "--keep-within-yearly=6y1d")
	require.NoError(t, err)
	require.True(t, given)
	type period = forget.Period
	require.Equal(t, forget.Policy{
		Last:   1,
		Newest: forget.Spans[int]{forget.Hourly: 2, forget.Daily: 3, forget.Weekly: 4, forget.Monthly: 5, forget.Yearly: -1},
		Within: period{Hours: 1},
		Recent: forget.Spans[period]{
			forget.Hourly: period{Hours: 2}, forget.Daily: period{Days: 3}, forget.Weekly: period{Days: 7},
			forget.Monthly: period{Months: 5}, forget.Yearly: period{Years: 6, Days: 1},
		},
	}, p)
}

func TestNoKeepFlag(t *testing.T) {
	p, given, err := parseKeep("--prune")
	require.NoError(t, err)
	require.False(t, given)
	require.True(t, p.Empty())

	p, given, err = parseKeep("--keep-daily", "0")
	require.NoError(t, err)
	require.True(t, given)
	require.True(t, p.Empty())
}

func TestMalformedKeepFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--keep-last=many": "write a number, or unlimited", "--keep-daily=-1": "write a number",
		"--keep-within=7": "write a span of time", "--keep-within-yearly=0y": "write a span of time",
	} {
		_, _, err := parseKeep(arg)
		require.ErrorContains(t, err, want, arg)
	}
}
