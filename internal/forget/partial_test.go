package forget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestPartialSnapshotIsReplaced: by whole snapshots of its sources, also of other groups, and by nothing else.
func TestPartialSnapshotIsReplaced(t *testing.T) {
	of := func(text string, held map[string]snapshot.Held) repo.Listed {
		l := at(text)
		l.Snapshot.Start = l.Snapshot.Time
		for source, h := range held {
			l.Snapshot.Sources, l.Snapshot.Held = append(l.Snapshot.Sources, source), append(l.Snapshot.Held, h)
		}
		return l
	}
	whole, missing := files(5), snapshot.Held{State: snapshot.Missing, Failed: 1}
	failed := files(5)
	failed.Failed = 1
	accepted := files(1)
	accepted.Accepted = 1
	photos := func(text string, h snapshot.Held) repo.Listed {
		return of(text, map[string]snapshot.Held{"/photos": h})
	}
	docs := of("2026-03-03 11:00", map[string]snapshot.Held{"/docs": whole})
	for name, c := range map[string]struct {
		whole []repo.Listed
		gone  bool
	}{
		"nothing else":         {nil, false},
		"one of two":           {[]repo.Listed{docs}, false},
		"both":                 {[]repo.Listed{docs, photos("2026-03-03 10:00", whole)}, true},
		"both, one older":      {[]repo.Listed{docs, photos("2026-03-01 10:00", whole)}, false},
		"both, one missing":    {[]repo.Listed{docs, photos("2026-03-03 10:00", missing)}, false},
		"both, one incomplete": {[]repo.Listed{docs, photos("2026-03-03 10:00", failed)}, false},
		"both, one smaller":    {[]repo.Listed{docs, photos("2026-03-03 10:00", files(1))}, false},
		"both, one accepted":   {[]repo.Listed{docs, photos("2026-03-03 10:00", accepted)}, true},
		"what contains them":   {[]repo.Listed{of("2026-03-03 10:00", map[string]snapshot.Held{"/": whole})}, false},
		"of the same run": {[]repo.Listed{
			of("2026-03-02 10:00", map[string]snapshot.Held{"/docs": whole, "/photos": whole})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			part := at("2026-03-02 12:00")
			s := part.Snapshot
			s.Partial, s.Sources, s.End = true, []string{"/docs", "/photos", "/new"}, s.Time
			s.Held = []snapshot.Held{files(1), files(2), {}}
			s.Start = tree.Time{Sec: s.Time.Sec - 2*60*60}
			p := Policy{Last: 1}
			now := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
			groups := [][]Verdict{p.Apply([]repo.Listed{part}, now)}
			for _, l := range c.whole {
				groups = append(groups, p.Apply([]repo.Listed{l}, now))
			}
			ReplacePartial(groups...)
			require.Equal(t, !c.gone, groups[0][0].Keep)
			s.Held = nil
			groups[0] = p.Apply([]repo.Listed{part}, now)
			ReplacePartial(groups...)
			require.True(t, groups[0][0].Keep, "what it holds is unknown")
			s.Tags = []string{repo.Protected}
			groups[0] = p.Apply([]repo.Listed{part}, now)
			ReplacePartial(groups...)
			require.True(t, groups[0][0].Keep)
		})
	}
}
