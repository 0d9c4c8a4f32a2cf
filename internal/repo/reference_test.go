package repo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestSnapshotsByTimeAndByOrder: of day 0 to 4 before today there are snapshots at 10:00 and 14:00, of day 2 none. The
// machine "b" has one of day 3 at 12:00, and one of a second folder of day 4.
func TestSnapshotsByTimeAndByOrder(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	y, m, d := time.Now().Date()
	at := func(day, hour int) time.Time { return time.Date(y, m, d-day, hour, 0, 30, 0, time.Local) }
	name := map[format.ID]string{}
	add := func(what, host string, at time.Time, sources ...string) format.ID {
		s := snap(format.ID{1}, host, at.Unix())
		s.Sources = sources
		id := save(t, r, s)
		name[id] = what
		return id
	}
	for _, day := range []int{4, 3, 1, 0} {
		add(string(rune('0'+day))+" morning", "a", at(day, 10), "/home", "/etc")
		add(string(rune('0'+day))+" noon", "a", at(day, 14), "/etc", "/home") // the order of sources says nothing
	}
	other := add("3 of b", "b", at(3, 12), "/home")
	add("4 of b", "b", at(4, 12), "/srv")

	onlyA := repo.Filter{Hosts: []string{"a"}}
	day := func(n int) string { return at(n, 0).Format(time.DateOnly) }
	for _, c := range []struct {
		ref    string
		filter repo.Filter
		want   string
	}{
		{"latest", repo.Filter{}, "0 noon"},
		{"latest~0", repo.Filter{}, "0 noon"},
		{"latest~2", repo.Filter{}, "1 noon"},
		{"latest~5", repo.Filter{}, "3 morning"},
		{"latest~1", repo.Filter{Hosts: []string{"b"}, Paths: []string{"/home"}}, ""},
		{"latest~8", repo.Filter{}, ""},
		{"latest~x", repo.Filter{}, ""},
		{"yesterday", repo.Filter{}, "1 noon"},
		{day(1), repo.Filter{}, "1 noon"},
		{day(1) + " 13:00", repo.Filter{}, "1 morning"},
		{day(1) + " 14:00", repo.Filter{}, "1 noon"}, // as a list shows it, without the seconds
		{day(1) + " 14:00:29", repo.Filter{}, "1 morning"},
		{at(1, 14).Format(time.RFC3339), repo.Filter{}, "1 noon"},
		{at(4, 9).Format(time.RFC3339), onlyA, ""},
		{"2 days ago", repo.Filter{}, ""},
		{"3 days ago", onlyA, "3 noon"},
		{at(4, 0).Weekday().String(), onlyA, "4 noon"},
		{"last " + at(4, 0).Weekday().String(), repo.Filter{Paths: []string{"/srv"}}, "4 of b"},
		{"now", repo.Filter{Hosts: []string{"b"}, Paths: []string{"/home"}}, "3 of b"},
		{"100 hours ago", repo.Filter{Hosts: []string{"c"}}, ""},
	} {
		got, err := r.FindSnapshot(t.Context(), c.ref, c.filter)
		if c.want == "" {
			require.ErrorIs(t, err, repo.ErrNoSnapshot, c.ref)
			continue
		}
		require.NoError(t, err, c.ref)
		require.Equal(t, c.want, name[got.ID], c.ref)
	}

	_, err := r.FindSnapshot(t.Context(), "3 days ago", repo.Filter{})
	var ambiguous *repo.AmbiguousError
	require.ErrorAs(t, err, &ambiguous)
	require.Len(t, ambiguous.Matches, 2, "one of each machine")
	require.ErrorContains(t, err, other.Short())
	require.ErrorContains(t, err, "narrow it by --host")
	_, err = r.FindSnapshot(t.Context(), "2 days ago", onlyA)
	require.ErrorContains(t, err, "is of "+at(3, 14).Format(time.DateTime))
	require.ErrorContains(t, err, "is of "+at(1, 10).Format(time.DateTime))
	_, err = r.FindSnapshot(t.Context(), "latest~8", repo.Filter{})
	require.ErrorContains(t, err, "latest~7 is the oldest")

	// A damaged snapshot can be the one that is meant.
	damaged := store.Name{Kind: store.Snapshot, ID: other.String()}
	require.NoError(t, st.Put(t.Context(), damaged, bytesOf(t, st, damaged)[:50]))
	got, err := fresh(t, st).FindSnapshot(t.Context(), "yesterday", repo.Filter{})
	require.NoError(t, err)
	require.Equal(t, "1 noon", name[got.ID])
	require.Equal(t, []format.ID{other}, got.Unread)
	for _, id := range []string{"3fa2b1c0", "DEED"} {
		require.True(t, repo.IsID(id), id)
	}
	for _, id := range []string{"", "3d", "abc", "latest", "2026-11-20", "today"} {
		require.False(t, repo.IsID(id), id)
	}
}
