package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
)

func TestParseKeep(t *testing.T) {
	type period = forget.Period
	for text, want := range map[string]*forget.Policy{
		"all": nil, "ALL ": nil,
		"time-machine": {
			Within: period{Hours: 24},
			Recent: forget.Spans[period]{forget.Daily: period{Months: 1}},
			Newest: forget.Spans[int]{forget.Weekly: -1},
		},
		"last 3 hourly 24 daily 30 weekly 520 within 36h": {
			Last: 3, Newest: forget.Spans[int]{forget.Hourly: 24, forget.Daily: 30, forget.Weekly: 520},
			Within: period{Hours: 36},
		},
		"monthly 12 yearly unlimited within-daily 2w": {
			Newest: forget.Spans[int]{forget.Monthly: 12, forget.Yearly: -1},
			Recent: forget.Spans[period]{forget.Daily: period{Days: 14}},
		},
		"within-hourly 1d within-weekly 1m within-monthly 2m within-yearly 3y": {
			Recent: forget.Spans[period]{forget.Hourly: period{Days: 1}, forget.Weekly: period{Months: 1},
				forget.Monthly: period{Months: 2}, forget.Yearly: period{Years: 3}},
		},
	} {
		if want != nil {
			want.Spare = true
		}
		p, err := ParseKeep(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p, text)
	}
	for _, text := range []string{"", "most", "last", "last many", "last -1", "daily 3 within 0h", "last 0",
		"sometimes 3", "time-machine 1"} {
		_, err := ParseKeep(text)
		require.ErrorIs(t, err, forget.ErrPolicy, text)
	}
}

func FuzzParseKeep(f *testing.F) {
	for _, text := range []string{"all", "time-machine", "last 3 hourly 24 daily 30 weekly 520 within 36h",
		"within-yearly 3y2m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseKeep(text)
		if err != nil {
			require.ErrorIs(t, err, forget.ErrPolicy)
			return
		}
		if p != nil {
			require.False(t, p.Empty(), "a policy keeps something")
		}
	})
}
