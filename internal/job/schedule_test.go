package job

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	in, err := time.LoadLocation(name)
	if err != nil {
		t.Skip("needs the time zones of the system: " + err.Error())
	}
	return in
}

// TestNext lists the times after a first one.
func TestNext(t *testing.T) {
	const berlin, howe = "Europe/Berlin", "Australia/Lord_Howe"
	for _, c := range []struct{ zone, schedule, after, want string }{
		{berlin, "daily 02:30", "2026-11-23T02:30:00+01:00", "2026-11-24T02:30:00+01:00 2026-11-25T02:30:00+01:00"},
		{berlin, "daily 02:30", "2026-11-23T02:29:59+01:00", "2026-11-23T02:30:00+01:00"},
		// 29 March 2026: 02:00 to 03:00 does not exist.
		{berlin, "daily 02:30", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{berlin, "daily 02:30,03:00", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{berlin, "daily 02:00", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"},
		{berlin, "daily 03:00", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T03:00:00+02:00"},
		{berlin, "daily 02:30,14:30", "2026-03-29T03:00:00+02:00", "2026-03-29T14:30:00+02:00 2026-03-30T02:30:00+02:00"},
		// 25 October 2026: 02:00 to 03:00 comes twice.
		{berlin, "daily 02:30", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{berlin, "daily 02:30", "2026-10-25T02:10:00+01:00", "2026-10-26T02:30:00+01:00"},
		{berlin, "daily 03:00", "2026-10-25T02:10:00+02:00", "2026-10-25T03:00:00+01:00"},
		{berlin, "hourly", "2026-10-25T01:30:00+02:00",
			"2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T03:00:00+01:00"},
		{berlin, "hourly", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-29T04:00:00+02:00"},
		{berlin, "weekly sunday 02:30", "2026-03-23T00:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-04-05T02:30:00+02:00"},
		{berlin, "weekly mon,THU 03:00", "2026-11-23T03:00:00+01:00", "2026-11-26T03:00:00+01:00 2026-11-30T03:00:00+01:00"},
		{berlin, "30 2 * * *", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{berlin, "*/20 2 * * *", "2026-03-28T12:00:00+01:00", "2026-03-30T02:00:00+02:00"},
		{berlin, "0 4 1 * mon", "2026-11-24T00:00:00+01:00", "2026-11-30T04:00:00+01:00 2026-12-01T04:00:00+01:00"},
		{berlin, "0 4 29 2 *", "2026-01-01T00:00:00+01:00", "2028-02-29T04:00:00+01:00 2032-02-29T04:00:00+01:00"},
		{berlin, "0 4 29 2 *", "2097-01-01T00:00:00+01:00", "2104-02-29T04:00:00+01:00"},
		{berlin, "daily 04:00", "2096-12-30T12:00:00+01:00", "2096-12-31T04:00:00+01:00 2097-01-01T04:00:00+01:00"},
		{berlin, "daily 02:30", "2096-12-31T12:00:00+01:00", "2097-01-01T02:30:00+01:00"},
		// Lord Howe changes by half an hour: 4 October 2026 lacks 02:00 to 02:30, 5 April 2026 repeats 01:30 to 02:00.
		{howe, "daily 02:15", "2026-10-03T12:00:00+10:30", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{howe, "daily 02:30", "2026-10-03T12:00:00+10:30", "2026-10-04T02:30:00+11:00 2026-10-05T02:30:00+11:00"},
		{howe, "daily 01:45", "2026-04-04T12:00:00+11:00", "2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
		{howe, "hourly", "2026-04-05T01:00:00+11:00", "2026-04-05T02:00:00+10:30"},
		{"UTC", "0 0 31 * *", "2026-11-23T00:00:00Z", "2026-12-31T00:00:00Z 2027-01-31T00:00:00Z 2027-03-31T00:00:00Z"},
		{berlin, "daily", "2026-03-28T12:00:00+01:00", "2026-03-29T00:00:00+01:00 2026-03-30T00:00:00+02:00"},
		{"UTC", "@Daily", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"},
		{"UTC", "weekly", "2026-11-23T00:00:00Z", "2026-11-29T00:00:00Z 2026-12-06T00:00:00Z"},
		{"UTC", "monthly", "2026-11-23T00:00:00Z", "2026-12-01T00:00:00Z 2027-01-01T00:00:00Z"},
		{"UTC", "every hour", "2026-11-23T00:10:00Z", "2026-11-23T01:00:00Z"},
		{"UTC", "every 15m", "2026-11-23T00:10:00Z", "2026-11-23T00:15:00Z 2026-11-23T00:30:00Z"},
		{"UTC", "every 60 minutes", "2026-11-23T00:10:00Z", "2026-11-23T01:00:00Z"},
		{"UTC", "every 6 hours", "2026-11-23T05:10:00Z", "2026-11-23T06:00:00Z 2026-11-23T12:00:00Z"},
		{"UTC", "every 24h", "2026-11-23T05:10:00Z", "2026-11-24T00:00:00Z"},
		{berlin, "every 2h", "2026-10-25T01:30:00+02:00",
			"2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T04:00:00+01:00"},
		{"UTC", "never", "2026-11-23T00:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		t.Run(c.zone+" "+c.schedule+" "+c.after, func(t *testing.T) {
			s, err := ParseSchedule(c.schedule)
			require.NoError(t, err)
			at, err := time.Parse(time.RFC3339, c.after)
			require.NoError(t, err)
			at = at.In(zone(t, c.zone))
			var got []string
			for range strings.Fields(c.want) {
				at = s.Next(at)
				got = append(got, at.Format(time.RFC3339))
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

func TestParseScheduleRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "it is empty", "sometimes": `write hourly, "every 2h", daily`, "daily now 10": "write one time",
		"every": "that divide", "every 7h": "that divide", "every 25m": "that divide", "every 2": "that divide",
		"every 48h": "that divide", "every -1h": "that divide", "every 2 fortnights": "that divide",
		"@yearly":     "write hourly",
		"daily 25:00": "00:00 to 23:59",
		"daily 24:00": "00:00 to 23:59", "daily 2:3": "00:00 to 23:59", "daily 02:30,": "00:00 to 23:59",
		"weekly 03:00":          "day and the time",
		"weekly caturday 03:00": "write sunday, monday", "0 0 30 2 *": "there is no such day", "61 * * * *": "write hourly",
		"* * * *": "write hourly", "TZ=UTC * * * *": "write hourly", "hourly 10": "write hourly",
	} {
		_, err := ParseSchedule(text)
		require.ErrorIs(t, err, ErrSchedule, text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, text := range []string{"hourly", "daily 02:30,14:30", "weekly sun 03:00", "*/5 1-3 1,15 jan mon", "never",
		"every 2h", "0 0 30 2 *"} {
		f.Add(text, int64(1774746000))
	}
	f.Fuzz(func(t *testing.T, text string, sec int64) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		again, err := ParseSchedule(s.String())
		require.NoError(t, err, "what String returns can be read")
		require.Equal(t, s.String(), again.String())
		at := time.Unix(sec%(1<<32), 0).In(zone(t, "Europe/Berlin"))
		next := s.Next(at)
		require.True(t, next.IsZero() || next.After(at), "%s is not after %s", next, at)
		require.Equal(t, next, again.Next(at))
	})
}
