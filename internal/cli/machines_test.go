package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestNewestOfMachines(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	day := 24 * time.Hour
	made := func(host string, ago time.Duration, change ...func(*repo.Listed)) repo.Listed {
		at := now.Add(-ago)
		l := repo.Listed{Snapshot: &snapshot.Snapshot{Host: host, Start: tree.Time{Sec: at.Unix()}}, Stored: at}
		for _, c := range change {
			c(&l)
		}
		return l
	}
	lacking := func(l *repo.Listed) { l.Snapshot.Stats.Objects.Failed = 1 }
	emptied := func(l *repo.Listed) { l.Snapshot.Held = []snapshot.Held{{}, {State: snapshot.Empty}} }
	got := machines([]repo.Listed{
		made("b", 2*day), made("b", day), made("b", 9*day),
		made("a", 5*day), made("a", day, lacking), made("a", day, emptied),
		made("c", -300*day, func(l *repo.Listed) { l.Stored = now.Add(-4 * day) }),
		made("d", day, lacking),
		{},
	}, 3*day, now)
	at := func(d time.Duration) time.Time { return now.Add(-d) }
	require.Equal(t, []event.Machine{{Host: "a", LastBackup: at(5 * day), Stale: true}, {Host: "b", LastBackup: at(day)},
		{Host: "c", LastBackup: at(4 * day), Stale: true}, {Host: "d", Stale: true}}, got)
	for _, m := range machines([]repo.Listed{made("b", 900*day)}, 0, now) {
		require.False(t, m.Stale, "without a limit nothing is stale")
	}
}
