package forget

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func at(text string, tags ...string) repo.Listed {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	var id format.ID
	copy(id[:], text)
	return repo.Listed{ID: id, Snapshot: &snapshot.Snapshot{Time: tree.Time{Sec: t.Unix()}, Tags: tags}}
}

// kept are the times of what a policy keeps, newest first.
func kept(p Policy, group ...repo.Listed) (times []string) {
	later := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, v := range p.Apply(group, later) {
		if v.Keep {
			times = append(times, moment(&v, time.UTC).Format("2006-01-02 15:04"))
		}
	}
	return times
}

func TestPolicy(t *testing.T) {
	group := []repo.Listed{
		at("2026-03-01 10:00"), at("2026-03-01 10:30"), at("2026-03-01 11:00"), at("2026-02-28 23:00", "a", "b"),
		at("2026-02-27 12:00"), at("2026-01-05 12:00", "a"), at("2025-12-31 12:00"), at("2024-06-01 12:00"),
	}
	for name, c := range map[string]struct {
		policy Policy
		want   string
	}{
		"last 2": {Policy{Last: 2}, "2026-03-01 11:00|2026-03-01 10:30"},
		"last all": {Policy{Last: -1}, "2026-03-01 11:00|2026-03-01 10:30|2026-03-01 10:00|2026-02-28 23:00|2026-02-27 " +
			"12:00|2026-01-05 12:00|2025-12-31 12:00|2024-06-01 12:00"},
		"hourly 2":  {Policy{Newest: Spans[int]{Hourly: 2}}, "2026-03-01 11:00|2026-03-01 10:30"},
		"daily 3":   {Policy{Newest: Spans[int]{Daily: 3}}, "2026-03-01 11:00|2026-02-28 23:00|2026-02-27 12:00"},
		"weekly 2":  {Policy{Newest: Spans[int]{Weekly: 2}}, "2026-03-01 11:00|2026-01-05 12:00"},
		"monthly 3": {Policy{Newest: Spans[int]{Monthly: 3}}, "2026-03-01 11:00|2026-02-28 23:00|2026-01-05 12:00"},
		"yearly 9":  {Policy{Newest: Spans[int]{Yearly: 9}}, "2026-03-01 11:00|2025-12-31 12:00|2024-06-01 12:00"},
		"within 2d": {Policy{Within: Period{Days: 2}},
			"2026-03-01 11:00|2026-03-01 10:30|2026-03-01 10:00|2026-02-28 23:00|2026-02-27 12:00"},
		"tag a":     {Policy{Tags: [][]string{{"a"}}}, "2026-02-28 23:00|2026-01-05 12:00"},
		"tags a, b": {Policy{Tags: [][]string{{"a", "b"}}}, "2026-02-28 23:00"},
		"two rules": {Policy{Last: 1, Newest: Spans[int]{Yearly: 2}}, "2026-03-01 11:00|2025-12-31 12:00"},
		"no such":   {Policy{Tags: [][]string{{"x"}}}, "2026-03-01 11:00"},
		"daily of 3d": {
			Policy{Recent: Spans[Period]{Daily: Period{Days: 3}}},
			"2026-03-01 11:00|2026-02-28 23:00|2026-02-27 12:00",
		},
		"hourly of 1h": {Policy{Recent: Spans[Period]{Hourly: Period{Hours: 1}}}, "2026-03-01 11:00|2026-03-01 10:30"},
		"weekly of 2w": {Policy{Recent: Spans[Period]{Weekly: Period{Days: 14}}}, "2026-03-01 11:00"},
		"monthly of 2m": {Policy{Recent: Spans[Period]{Monthly: Period{Months: 2}}},
			"2026-03-01 11:00|2026-02-28 23:00|2026-01-05 12:00"},
		"yearly of 1y": {
			Policy{Recent: Spans[Period]{Yearly: Period{Years: 1}}},
			"2026-03-01 11:00|2025-12-31 12:00",
		},
		"count and time": {
			Policy{Newest: Spans[int]{Monthly: 1}, Recent: Spans[Period]{Daily: Period{Days: 1}}},
			"2026-03-01 11:00|2026-02-28 23:00",
		},
		"the newest": {Policy{}, "2026-03-01 11:00"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, strings.Join(kept(c.policy, group...), "|"))
		})
	}
}

// TestReasons names each part of a policy that keeps a snapshot.
func TestReasons(t *testing.T) {
	p := Policy{Last: 1, Newest: Spans[int]{Daily: 1}, Within: Period{Days: 2},
		Recent: Spans[Period]{Daily: Period{Days: 2}}}
	var got []string
	later := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, v := range p.Apply([]repo.Listed{at("2026-03-01 10:00"), at("2026-02-28 10:00"), at("2026-02-28 09:00")},
		later) {
		got = append(got, strings.Join(v.Reasons, " "))
	}
	require.Equal(t, []string{"last daily within-daily within", "within-daily within", "within"}, got)
}

// TestFutureDropsNothing: what a clock that was wrong has made stays, and no policy drops for it what is of now.
func TestFutureDropsNothing(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	of := []repo.Listed{at("2026-02-01 10:00"), at("2026-02-27 10:00"), at("2026-02-28 10:00"), at("2026-03-01 10:00")}
	future := []repo.Listed{at("2026-03-02 13:00"), at("2035-01-01 10:00"), at("2035-01-02 10:00")}
	for name, c := range map[string]struct {
		policy Policy
		want   string
	}{
		"last":         {Policy{Last: 1}, "last"},
		"daily":        {Policy{Newest: Spans[int]{Daily: 2}}, "daily|daily"},
		"within":       {Policy{Within: Period{Days: 3}}, "within|within|within"},
		"daily within": {Policy{Recent: Spans[Period]{Daily: Period{Days: 1}}}, "within-daily|within-daily"},
		"no such tag":  {Policy{Tags: [][]string{{"x"}}}, "newest"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for i, v := range c.policy.Apply(slices.Concat(of, future), now) {
				switch {
				case i < len(future):
					require.Equal(t, []string{"future"}, v.Reasons)
				case v.Keep:
					got = append(got, v.Reasons...)
				}
			}
			require.Equal(t, c.want, strings.Join(got, "|"))
		})
	}
	near := reasons(t, Policy{Last: 1}, now, at("2026-03-02 11:00"), at("2026-03-01 10:00"))
	require.Equal(t, []string{"last", ""}, near, "a clock that is not exact is no wrong one")
	require.Equal(t, []string{"future", "future"}, reasons(t, Policy{Last: 1}, time.Unix(0, 0), of[0], of[1]),
		"the clock of this machine is the wrong one")
}

// reasons returns why each snapshot is kept, newest first.
func reasons(t *testing.T, p Policy, now time.Time, group ...repo.Listed) (why []string) {
	t.Helper()
	for _, v := range p.Apply(group, now) {
		require.Equal(t, v.Keep, len(v.Reasons) > 0)
		why = append(why, strings.Join(v.Reasons, " "))
	}
	return why
}

// TestNewestOfEqualsIsTheLatest: of snapshots of one moment the policy and "latest" mean the same, in any order of the
// input.
func TestNewestOfEqualsIsTheLatest(t *testing.T) {
	low, high := at("2026-03-01 10:00"), at("2026-03-01 10:00")
	low.ID, high.ID = format.ID{1}, format.ID{2} // as repo sorts them: the last is the latest
	for _, group := range [][]repo.Listed{{low, high}, {high, low}} {
		v := (&Policy{Last: 1}).Apply(group, time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
		require.Equal(t, high.ID, v[0].ID)
		require.True(t, v[0].Keep)
		require.False(t, v[1].Keep)
	}
}

// TestHourThatComesTwice: in autumn the clock shows the same hour twice, which are two.
func TestHourThatComesTwice(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("this machine does not know the time zones: ", err)
	}
	p := Policy{Newest: Spans[int]{Hourly: 2}}
	group := []repo.Listed{at("2026-10-24 23:30"), at("2026-10-25 00:30"), at("2026-10-25 01:30")} // 1:30, 2:30, 2:30
	require.Equal(t, []string{"hourly", "hourly", ""}, reasons(t, p, time.Date(2026, 11, 1, 0, 0, 0, 0, berlin), group...))
}

// TestPolicyProperties: a policy keeps at least one, and what a larger number keeps includes what a smaller one does,
// in any order of the input.
func TestPolicyProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var group []repo.Listed
		for i := range 1 + rng.IntN(30) {
			l := at("2025-06-01 00:00")
			l.ID = format.ID{byte(i), 1}
			l.Snapshot.Time.Sec += rng.Int64N(90 * 86400)
			group = append(group, l)
		}
		less := Policy{Last: rng.IntN(3), Newest: Spans[int]{Hourly: rng.IntN(3), Daily: rng.IntN(3), Weekly: rng.IntN(3)}}
		more := less
		more.Newest[Daily]++
		a, b := kept(less, group...), kept(more, group...)
		require.NotEmpty(t, a)
		if !less.Empty() {
			for _, one := range a {
				require.Contains(t, b, one)
			}
		}
		rng.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
		require.Equal(t, fmt.Sprint(a), fmt.Sprint(kept(less, group...)))
		require.True(t, slices.IsSortedFunc(a, func(x, y string) int { return strings.Compare(y, x) }))
	}
	require.Empty(t, kept(Policy{Last: 1}))
}

func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]Period{
		"1y6m10d2h": {1, 6, 10, 2}, "2w": {Days: 14}, "1w3d": {Days: 10}, "36h": {Hours: 36},
	} {
		got, err := ParsePeriod(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := ParsePeriod(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	require.Empty(t, Period{}.String())
	for _, text := range []string{"", "7", "d", "1d1y", "1d2d", "-1d", "0d", "1x", "1.5d", "99999999d"} {
		_, err := ParsePeriod(text)
		require.ErrorIs(t, err, ErrPeriod, "%q", text)
	}
}
