package forget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// byJob is a snapshot that a job made of /photos and /docs, with so many files of each.
func byJob(text string, photos, docs snapshot.Held) repo.Listed {
	l := at(text)
	l.Snapshot.Job, l.Snapshot.Sources = "home", []string{"/photos", "/docs"}
	l.Snapshot.Held = []snapshot.Held{photos, docs}
	return l
}

func files(n uint64) snapshot.Held { return snapshot.Held{Count: snapshot.Count{Files: n}} }

func words(t *testing.T, text string) Policy {
	t.Helper()
	p, err := ParsePolicy(text)
	require.NoError(t, err)
	return *p
}

// TestTimeMachineKeepsAllOfADay: also those that a job made within minutes.
func TestTimeMachineKeepsAllOfADay(t *testing.T) {
	var group []repo.Listed
	for minute := range 60 {
		group = append(group, byJob(fmt.Sprintf("2026-03-03 11:%02d", minute), files(1), files(1)))
	}
	group = append(group, byJob("2026-03-02 11:59", files(1), files(1)), byJob("2026-03-02 11:58", files(1), files(1)),
		byJob("2026-03-02 11:57", files(1), files(1)))
	times := kept(words(t, "time-machine"), group...)
	require.Len(t, times, 61)
	require.Equal(t, "2026-03-02 11:59", times[60])
}

// TestWordsSpareWhatAPersonMade: and count only what jobs made.
func TestWordsSpareWhatAPersonMade(t *testing.T) {
	tagged := byJob("2026-02-28 10:00", files(1), files(1))
	tagged.Snapshot.Tags = []string{"release"}
	group := []repo.Listed{
		byJob("2026-03-01 10:00", files(1), files(1)), at("2026-03-02 10:00"), at("2026-03-02 10:01"), tagged,
		byJob("2026-02-27 10:00", files(1), files(1)),
	}
	p := words(t, "last 1")
	require.Equal(t, []string{"2026-03-02 10:01", "2026-03-02 10:00", "2026-03-01 10:00", "2026-02-28 10:00"},
		kept(p, group...))
	p.Spare = false
	require.Equal(t, []string{"2026-03-02 10:01", "2026-03-01 10:00"}, kept(p, group...), "one holds the sources")
}

// TestLastSnapshotWithASourceStays: whatever the policy says, and the one that holds it whole.
func TestLastSnapshotWithASourceStays(t *testing.T) {
	empty := snapshot.Held{State: snapshot.Empty, Expected: snapshot.Count{Files: 40}}
	shrunk := snapshot.Held{State: snapshot.Shrunk, Count: snapshot.Count{Files: 1}, Expected: snapshot.Count{Files: 40}}
	group := []repo.Listed{
		byJob("2026-03-06 10:00", files(0), files(5)), // accepted by the user
		byJob("2026-03-05 10:00", empty, files(5)),
		byJob("2026-03-04 10:00", shrunk, files(5)),
		byJob("2026-03-03 10:00", files(40), files(5)),
		byJob("2026-03-02 10:00", files(40), files(5)),
	}
	last := Policy{Last: 1}
	require.Equal(t, []string{"2026-03-06 10:00", "2026-03-03 10:00"}, kept(last, group...))
	require.Equal(t, []string{"2026-03-06 10:00", "2026-03-04 10:00"}, kept(last, group[:3]...), "better than none")
	require.Equal(t, []string{"2026-03-03 10:00"}, kept(last, group[3:]...))
}

// TestRetentionWaits: after a backup that may lack data, a policy removes nothing, until a whole one or by force.
func TestRetentionWaits(t *testing.T) {
	old := byJob("2026-03-02 10:00", files(40), files(5))
	older := byJob("2026-03-01 10:00", files(40), files(5))
	failed := byJob("2026-03-03 10:00", files(40), files(5))
	failed.Snapshot.Stats.Objects.Failed = 2
	future := byJob("2036-03-03 10:00", files(40), files(5))
	now := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		newest repo.Listed
		why    string
	}{
		{"missing", byJob("2026-03-03 10:00", snapshot.Held{State: snapshot.Missing}, files(5)), "source /photos is missing"},
		{"empty", byJob("2026-03-03 10:00", snapshot.Held{State: snapshot.Empty}, files(5)), "source /photos is empty"},
		{"unreadable", byJob("2026-03-03 10:00", files(4), snapshot.Held{State: snapshot.Unreadable}),
			"source /docs is unreadable"},
		{"shrunk", byJob("2026-03-03 10:00", snapshot.Held{State: snapshot.Shrunk}, files(5)), "source /photos has shrunk"},
		{"of a later program", byJob("2026-03-03 10:00", snapshot.Held{State: 99}, files(5)), "source /photos is doubted"},
		{"incomplete", failed, "2 objects could not be backed up"},
		{"whole", byJob("2026-03-03 10:00", files(40), files(5)), ""},
	} {
		p := Policy{Last: 1}
		group := []repo.Listed{older, c.newest, future, old}
		verdicts := p.Apply(group, now)
		waits := p.Waits(verdicts)
		gone := 0
		for _, v := range verdicts {
			if !v.Keep {
				gone++
			}
		}
		if c.why == "" {
			require.Empty(t, waits, c.name)
			require.Equal(t, 2, gone, c.name)
			continue
		}
		require.Contains(t, waits, c.why+" in the newest snapshot, ", c.name)
		require.Zero(t, gone, c.name)
		p.Doubted = true
		verdicts = p.Apply(group, now)
		require.Empty(t, p.Waits(verdicts))
		require.Equal(t, c.name == "missing" || c.name == "empty" || c.name == "unreadable" || c.name == "shrunk" ||
			c.name == "of a later program", verdicts[2].Keep, "one that holds the sources stays even so")
		require.False(t, verdicts[3].Keep)
	}
}
