package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuietUntil(t *testing.T) {
	for _, c := range []struct {
		hours []string
		at    string
		until string // "": not quiet
	}{
		{nil, "2026-11-23T12:00:00+01:00", ""},
		{[]string{"09:00-17:30"}, "2026-11-23T08:59:59+01:00", ""},
		{[]string{"09:00-17:30"}, "2026-11-23T09:00:00+01:00", "2026-11-23T17:30:00+01:00"},
		{[]string{"09:00-17:30"}, "2026-11-23T17:29:59+01:00", "2026-11-23T17:30:00+01:00"},
		{[]string{"09:00-17:30"}, "2026-11-23T17:30:00+01:00", ""},
		{[]string{"22:00-06:00"}, "2026-11-23T23:00:00+01:00", "2026-11-24T06:00:00+01:00"},
		{[]string{"22:00-06:00"}, "2026-11-24T05:00:00+01:00", "2026-11-24T06:00:00+01:00"},
		{[]string{"mon-fri 09:00-17:30"}, "2026-11-22T12:00:00+01:00", ""}, // a Sunday
		{[]string{"mon-fri 09:00-17:30"}, "2026-11-23T12:00:00+01:00", "2026-11-23T17:30:00+01:00"},
		{[]string{"fri-mon 20:00-24:00"}, "2026-11-23T21:00:00+01:00", "2026-11-24T00:00:00+01:00"},
		{[]string{"fri-mon 20:00-24:00"}, "2026-11-24T21:00:00+01:00", ""},
		{[]string{"sat,Sunday"}, "2026-11-21T12:00:00+01:00", "2026-11-23T00:00:00+01:00"},
		{[]string{"sat,sun", "00:00-08:00"}, "2026-11-21T12:00:00+01:00", "2026-11-23T08:00:00+01:00"},
		{[]string{"sat 22:00-06:00"}, "2026-11-22T01:00:00+01:00", "2026-11-22T06:00:00+01:00"}, // into the next week
		// 25 October 2026: 02:00 to 03:00 comes twice, and both are quiet.
		{[]string{"01:00-02:30"}, "2026-10-25T02:10:00+01:00", "2026-10-25T02:30:00+01:00"},
		{[]string{"01:00-02:30"}, "2026-10-25T02:40:00+02:00", ""},
		{[]string{"01:00-02:30"}, "2026-03-29T01:10:00+01:00", "2026-03-29T03:00:00+02:00"},
	} {
		q, err := ParseQuiet(c.hours)
		require.NoError(t, err, "%v", c.hours)
		at, err := time.Parse(time.RFC3339, c.at)
		require.NoError(t, err)
		until := q.Until(at.In(zone(t, "Europe/Berlin")))
		if c.until == "" {
			require.Zero(t, until, "%v at %s", c.hours, c.at)
		} else {
			require.Equal(t, c.until, until.Format(time.RFC3339), "%v at %s", c.hours, c.at)
		}
	}
}

func TestParseQuietRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "such as", "work": "is no day", "9-17": "is no day", "09:00": "are no hours", "09:00-25:00": "are no hours",
		"mon-fri 09:00-17:30 x": "such as", "mon-fry": "is no day", "09:00-09:00": "are no hours",
		"24:00-01:00": "are no hours",
		"mon-sun":     "no time for a run", "00:00-24:00": "no time for a run",
	} {
		_, err := ParseQuiet([]string{text})
		require.ErrorContains(t, err, "invalid quiet hours", text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseQuiet(f *testing.F) {
	for _, text := range []string{"09:00-17:30", "mon-fri 22:00-06:00", "sat,sun", "sun-sat 00:00-23:59"} {
		f.Add(text, int64(1774746000))
	}
	f.Fuzz(func(t *testing.T, text string, sec int64) {
		q, err := ParseQuiet([]string{text})
		if err != nil {
			return
		}
		at := time.Unix(sec%(1<<32), 0).In(zone(t, "Europe/Berlin"))
		if until := q.Until(at); !until.IsZero() {
			require.True(t, until.After(at), "%s is not after %s", until, at)
			require.Zero(t, q.Until(until), "the end of the quiet hours is not quiet")
		}
	})
}

func TestParseBattery(t *testing.T) {
	for text, charges := range map[string][2]int{"pause": {100, 101}, "run": {-1, 0}, "50%": {49, 50}, "PAUSE": {100,
		101}, "100%": {99, 100}} {
		b, err := ParseBattery(text)
		require.NoError(t, err)
		require.Greater(t, b, charges[0], text)
		require.LessOrEqual(t, b, charges[1], text)
	}
	for _, text := range []string{"", "50", "101%", "-1%", "stop"} {
		_, err := ParseBattery(text)
		require.ErrorContains(t, err, "invalid value of on-battery", text)
	}
}

func TestJitterIsFixedAndSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, machine := range []string{"a", "b", "ab"} {
		for _, name := range []string{"home", "c", ""} {
			delay := Jitter(machine, name, time.Hour)
			require.Equal(t, delay, Jitter(machine, name, time.Hour))
			require.GreaterOrEqual(t, delay, time.Duration(0))
			require.Less(t, delay, time.Hour)
			seen[delay] = true
		}
	}
	require.Len(t, seen, 9)
	require.Zero(t, Jitter("a", "b", 0))
}
