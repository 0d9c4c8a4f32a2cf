package throttle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// Processes are scanned once a second at most, and never by two goroutines.
func TestScansAreRare(t *testing.T) {
	var top topIO
	now := time.Now()
	require.True(t, top.due(now))
	require.False(t, top.due(now.Add(time.Minute)), "the scan has not ended")
	top.collect(func() []report.Process { return nil })
	require.False(t, top.due(now.Add(attributionInterval-time.Millisecond)), "not so often")
	require.True(t, top.due(now.Add(attributionInterval)))
}

// A peer is named when its tier has opened windows: a run of tidemark as such, and any other program by its name.
func TestPeersAreNamed(t *testing.T) {
	var top topIO
	names := map[int]string{7: "tidemark", 8: "make", 9: "tidemark"}
	top.meet([]shared.Process{{PID: 7, Tier: 1}, {PID: 8, Tier: 2}, {PID: 9, Tier: 3},
		{PID: 10, Tier: 1, Policy: iopolicy.Passive}}, [iopolicy.Tiers]uint64{1: 4, 2: 1},
		func(pid int) string { return names[pid] })
	all, now := top.list()
	want := []report.Process{{PID: 7, Name: "tidemark", Peer: true}, {PID: 8, Name: "make"}}
	require.Equal(t, want, all)
	require.Equal(t, want, now)
	require.Equal(t, "another tidemark (7) and 1 more on sda (ssd)",
		(&report.Gate{Device: "sda", Medium: "ssd", Blamed: all}).Whom())

	// The scan of processes has bytes of one of them: it is listed once, and first.
	top.collect(func() []report.Process { return []report.Process{{PID: 8, Name: "make", Bytes: 5}} })
	all, now = top.list()
	want = []report.Process{{PID: 8, Name: "make", Bytes: 5}, {PID: 7, Name: "tidemark", Peer: true}}
	require.Equal(t, want, all)
	require.Equal(t, want, now)

	// After two seconds they are not what the job yields to now, also if nothing was scanned since.
	top.at = top.at.Add(-2 * time.Second)
	for p, seen := range top.peers {
		seen.at = seen.at.Add(-2 * time.Second)
		top.peers[p] = seen
	}
	all, now = top.list()
	require.Len(t, all, 2)
	require.Empty(t, now)
}
