package forget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestForgedDates: added snapshots with forged dates do not take the places of good ones.
func TestForgedDates(t *testing.T) {
	day := func(d, hour int) time.Time { return time.Date(2026, 11, d, hour, 0, 0, 0, time.UTC) }
	number := byte(0)
	at := func(written, stored time.Time) repo.Listed {
		number++
		return repo.Listed{ID: format.ID{number}, Stored: stored,
			Snapshot: &snapshot.Snapshot{Time: tree.Time{Sec: written.Unix()}}}
	}
	kept := func(list []repo.Listed, p Policy, now time.Time) map[format.ID]bool {
		out := map[format.ID]bool{}
		for _, v := range p.Apply(list, now) {
			out[v.ID] = v.Keep
		}
		return out
	}
	var good, forged []repo.Listed
	for d := 1; d <= 5; d++ {
		good = append(good, at(day(d, 12), day(d, 12)))
	}
	now := day(5, 20)

	// Dated into the past: each as the last of a day that is over.
	for d := 1; d <= 4; d++ {
		forged = append(forged, at(day(d, 23), day(5, 10)))
	}
	all := append(append([]repo.Listed{}, good...), forged...)
	daily := Policy{Newest: Spans[int]{Daily: 5}}
	byWritten, byStored := kept(all, daily, now), kept(ByStored(all), daily, now)
	require.False(t, byWritten[good[0].ID], "this is what the option is for")
	for _, g := range good {
		require.True(t, byStored[g.ID])
	}
	for _, f := range forged {
		require.False(t, byStored[f.ID])
	}

	// Dated into the future, but so little that no clock has to be wrong: it is the last until its time has come.
	soon := at(day(6, 18), day(5, 11))
	all = append(append([]repo.Listed{}, good...), soon)
	last := Policy{Last: 1}
	require.False(t, kept(all, last, now)[good[4].ID], "this is what the option is for")
	require.True(t, kept(ByStored(all), last, now)[good[4].ID])
	require.False(t, kept(ByStored(all), last, now)[soon.ID])

	// Dated far into the future: it counts for nothing by its own date, and as what it is by that of the target.
	far := at(day(5, 12).AddDate(10, 0, 0), day(5, 11))
	all = append(append([]repo.Listed{}, good...), far)
	require.True(t, kept(all, last, now)[good[4].ID])
	require.True(t, kept(ByStored(all), last, now)[good[4].ID])
	require.False(t, kept(ByStored(all), last, now)[far.ID])
	require.Equal(t, day(5, 12).AddDate(10, 0, 0).Unix(), far.Snapshot.Time.Sec, "the snapshot itself is left as it is")
}
