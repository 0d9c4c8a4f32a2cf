package when_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/when"
)

// TestTimesAsPeopleWriteThem: now is Saturday, 2026-03-28, 09:30 in Berlin, a day before the clocks go forward.
func TestTimesAsPeopleWriteThem(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	now := time.Date(2026, 3, 28, 9, 30, 0, 0, berlin)
	day := func(y int, m time.Month, d int) [2]time.Time {
		return [2]time.Time{time.Date(y, m, d, 0, 0, 0, 0, berlin), time.Date(y, m, d+1, 0, 0, 0, 0, berlin)}
	}
	moment := func(at time.Time, exact time.Duration) [2]time.Time { return [2]time.Time{at, at.Add(exact)} }
	for text, want := range map[string][2]time.Time{
		"2026-02-20":        day(2026, 2, 20),
		"today":             day(2026, 3, 28),
		"Yesterday":         day(2026, 3, 27),
		"tuesday":           day(2026, 3, 24),
		"last Tuesday":      day(2026, 3, 24),
		"sat":               day(2026, 3, 21), // not today
		"3 days ago":        day(2026, 3, 25),
		"a week ago":        day(2026, 3, 21),
		"1 month ago":       day(2026, 2, 28),
		"2  weeks  ago":     day(2026, 3, 14),
		"13 months ago":     day(2025, 2, 28),
		"2 years ago":       day(2024, 3, 28),
		"40 days ago":       day(2026, 2, 16),
		"an hour ago":       moment(now.Add(-time.Hour), 1),
		"90 minutes ago":    moment(now.Add(-90*time.Minute), 1),
		"now":               moment(now, 1),
		"yesterday 14:00":   moment(time.Date(2026, 3, 27, 14, 0, 0, 0, berlin), time.Minute),
		"34 days ago 23:30": moment(time.Date(2026, 2, 22, 23, 30, 0, 0, berlin), time.Minute),
		"last fri 7:05":     moment(time.Date(2026, 3, 27, 7, 5, 0, 0, berlin), time.Minute),

		"2026-03-29 14:00":          moment(time.Date(2026, 3, 29, 14, 0, 0, 0, berlin), time.Minute),
		"2026-03-29T14:00:05":       moment(time.Date(2026, 3, 29, 14, 0, 5, 0, berlin), time.Second),
		"2026-03-29T14:00:05-01:00": moment(time.Date(2026, 3, 29, 15, 0, 5, 0, time.UTC), 1),
	} {
		got, err := when.Parse(text, now)
		require.NoError(t, err, text)
		require.True(t, want[0].Equal(got.At), "%s: %s", text, got.At)
		require.True(t, want[1].Equal(got.To), "%s: %s", text, got.To)
		require.Equal(t, want[1].Sub(want[0]) > time.Hour, got.Day, text)
	}
	long, err := when.Parse("2026-03-29", now)
	require.NoError(t, err)
	require.Equal(t, 23*time.Hour, long.To.Sub(long.At))
	leap, err := when.Parse("a year ago", time.Date(2024, 2, 29, 0, 0, 0, 0, berlin))
	require.NoError(t, err)
	require.True(t, day(2023, 2, 28)[0].Equal(leap.At))
	for _, text := range []string{"", " ", "latest", "3", "2026", "3fa2b1c0", "deed", "2026-02-30", "2026-03-28 25:00",
		"tues", "days ago", "-3 days ago", "3 days", "0001-01-01", "15:04", "last", "last last friday"} {
		_, err := when.Parse(text, now)
		require.ErrorContains(t, err, "write it as", text)
	}
}
