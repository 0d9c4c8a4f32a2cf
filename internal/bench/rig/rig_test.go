package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestParseIO(t *testing.T) {
	require.Equal(t, uint64(4096+8192),
		parseIO("rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n"))
	require.Zero(t, parseIO(""))
}

func TestParseStat(t *testing.T) {
	n, err := parseStat("  11 0 8 3  5 0 16 4  0 7 7 0 0 0 0 2 1\n")
	require.NoError(t, err)
	require.Equal(t, uint64(24*512), n)
	for _, bad := range []string{"", "1 2 3", "1 2 x 4 5 6 7", "1 2 3 4 5 6 x"} {
		_, err := parseStat(bad)
		require.Error(t, err, bad)
	}
}

func TestEventsOfGates(t *testing.T) {
	var l Events
	_, _, err := l.End()
	require.ErrorIs(t, err, ErrNoGates)
	w := event.NewWriter(&l)
	totals := func(s int, charged uint64) *report.Totals {
		return &report.Totals{
			Elapsed: time.Duration(s) * time.Second,
			Gates: []report.Gate{
				{Device: "vda", Charged: 3},
				{Device: "sda", Charged: charged, Engaged: time.Duration(s) * time.Second,
					Asleep: [iopolicy.Tiers]time.Duration{3: time.Duration(2*s) * time.Second}},
			},
		}
	}
	for s, charged := range []uint64{0, 40, 80} {
		require.NoError(t, w.Write(event.NewStatus(totals(s, charged), report.Speeds{}, nil)))
	}
	_, _ = l.Write([]byte("not JSON\n{\"message_type\":\"sum"))
	_, _, err = l.End()
	require.ErrorIs(t, err, ErrNoGates)

	_, _ = l.Write([]byte("ething else\"}\n"))
	require.NoError(t, w.Write(&event.BackupSummary{Type: "summary", TotalDuration: 3,
		Figures: event.NewFigures(totals(3, 120))}))
	g, took, err := l.End()
	require.NoError(t, err)
	require.Equal(t, "sda", g.Device)
	require.Equal(t, uint64(120), g.Charged)
	require.InDelta(t, 6, Asleep(&g), 0)
	require.Equal(t, 3*time.Second, took)
}

func TestLatencyLog(t *testing.T) {
	got, err := parseLatencies([]byte("1795383712876, 186320, 0, 4096, 0\n1795383712549, 169790, 0, 4096, 0\n"))
	require.NoError(t, err)
	require.Equal(t, []Request{
		{time.UnixMilli(1795383712549), 169790}, {time.UnixMilli(1795383712876), 186320},
	}, got, "in the order in which they ended")
	for _, bad := range []string{"x", "1, 2", "1, x, 0", "y, 2, 0"} {
		_, err := parseLatencies([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestDuring(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var requests []Request
	for i := range 10 {
		requests = append(requests, Request{at(i), time.Duration(i)})
	}
	require.Equal(t, []time.Duration{2, 3, 8, 9}, During(requests, []Span{{at(2), at(4)}, {at(8), at(20)}}))
	require.Empty(t, During(requests, []Span{{at(4), at(2)}}))
	require.Empty(t, During(nil, []Span{{at(2), at(4)}}))
}

func TestQuantile(t *testing.T) {
	require.Zero(t, Quantile(nil, 0.5))
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(i))
	}
	require.Equal(t, time.Duration(500), Quantile(all, 0.5))
	require.Equal(t, time.Duration(990), Quantile(all, 0.99))
	require.Equal(t, time.Duration(999), Quantile(all, 1))
}

func TestCode(t *testing.T) {
	testkit.Slow(t)
	const n, size = 600, 3 << 20
	roots := []string{t.TempDir(), t.TempDir()}
	for _, root := range roots {
		require.NoError(t, Filler(3).Code(t.Context(), root, n, size))
	}
	read := func(root string) map[string]string {
		all := map[string]string{}
		require.NoError(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			rel, _ := filepath.Rel(root, path)
			all[rel] = string(text)
			return err
		}))
		return all
	}
	before := read(roots[0])
	require.Equal(t, before, read(roots[1]))
	require.Len(t, before, n)
	sum, different := 0, map[string]bool{}
	for _, text := range before {
		sum += len(text)
		different[text] = true
	}
	require.InEpsilon(t, size, sum, 0.15)
	require.Greater(t, len(different), n*9/10)

	require.NoError(t, Filler(4).Change(roots[0]))
	other := 0
	for path, text := range read(roots[0]) {
		require.Len(t, text, len(before[path]))
		if text != before[path] {
			other++
		}
	}
	require.InDelta(t, n/10, other, 1)
}

func TestWorksBesideABackup(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	works := []Request{{at(10), 10 * time.Second}, {at(20), 10 * time.Second}, {at(32), 12 * time.Second}}
	require.Equal(t, []time.Duration{10 * time.Second, 10 * time.Second}, MostlyDuring(works, Span{at(0), at(22)}))
	require.Equal(t, []time.Duration{10 * time.Second}, MostlyDuring(works, Span{at(0), at(1)}), "at least the first")
	require.Empty(t, MostlyDuring(nil, Span{at(0), at(1)}))
}

// A work that is stopped leaves no program behind, which would keep the disk from being unmounted.
func TestStoppedWorkEndsWithItsChildren(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	began := time.Now()
	// The child holds the pipe of the output, for which the call waits.
	require.Error(t, runWork(exec.CommandContext(ctx, "sh", "-c", "sleep 60 & wait")))
	require.Less(t, time.Since(began), 30*time.Second)
}

func TestSecondsCountsWholeSeconds(t *testing.T) {
	base := time.UnixMilli(1_000_000)
	var requests []Request
	for _, ms := range []int{100, 900, 999, 1000, 2500, 5100, 5200, 6100} {
		requests = append(requests, Request{base.Add(time.Duration(ms) * time.Millisecond), time.Millisecond})
	}
	spans := []Span{{base, base.Add(2900 * time.Millisecond)}, {base.Add(5 * time.Second), base.Add(6 * time.Second)},
		{base.Add(6 * time.Second), base.Add(6500 * time.Millisecond)}}
	require.Equal(t, []int{3, 1, 2}, Seconds(requests, spans))
	require.Empty(t, Seconds(requests, spans[2:]))
}
