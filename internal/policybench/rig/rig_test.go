package rig

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

func TestMissing(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	gaps := []Span{{at(1), at(3)}, {at(8), at(20)}}
	require.InDelta(t, 0.4, Missing(gaps, at(0), at(10)), 1e-9)
	require.InDelta(t, 0, Missing(gaps, at(3), at(8)), 1e-9)
}

func TestParseFio(t *testing.T) {
	read := `fio: a warning
{"jobs":[{"read":{"bw_bytes":52428800,"iops":400.5,"clat_ns":{"percentile":{"50.000000":1500000,"99.000000":9000000}}},
"write":{"bw_bytes":0,"iops":0,"clat_ns":{}},"sync":{"total_ios":0,"lat_ns":{}}}]}`
	got, err := parseFio([]byte(read), "IOPS")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"rate": 400.5, "p50": 1.5, "p99": 9}, got)
	got, err = parseFio([]byte(read), "MiB/s")
	require.NoError(t, err)
	require.InDelta(t, 50, got["rate"], 0)
	write := `{"jobs":[{"read":{"iops":0},"write":{"iops":70,"clat_ns":{"percentile":{"50.000000":1,"99.000000":2}}},
"sync":{"lat_ns":{"percentile":{"50.000000":3000000,"99.000000":4000000}}}}]}`
	got, err = parseFio([]byte(write), "IOPS")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"rate": 70, "p50": 3, "p99": 4}, got)
	for _, bad := range []string{"", "{", `{"jobs":[]}`, `{"jobs":[{}]}`} {
		_, err := parseFio([]byte(bad), "IOPS")
		require.Error(t, err, bad)
	}
}

func TestParseIO(t *testing.T) {
	require.Equal(t, uint64(4096+8192), parseIO("rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n"))
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
				{Device: "sda", Charged: charged, Engaged: time.Duration(s) * time.Second, Asleep: report.TierTimes{3: time.Duration(2*s) * time.Second}},
			},
		}
	}
	from := time.Now()
	for s, charged := range []uint64{0, 40, 80} {
		require.NoError(t, w.Write(event.NewStatus(totals(s, charged), report.Speeds{}, nil)))
	}
	_, _ = l.Write([]byte("not JSON\n{\"message_type\":\"sum"))
	g, _, err := l.Since(from, time.Now())
	require.NoError(t, err)
	require.Equal(t, "sda", g.Device)
	require.Equal(t, uint64(80), g.Charged)
	require.InDelta(t, 2, g.Engaged, 0)
	require.InDelta(t, 4, Asleep(&g), 0)
	_, _, err = l.Since(time.Now(), time.Now().Add(time.Second))
	require.ErrorIs(t, err, ErrNoGates)

	_, _ = l.Write([]byte("ething else\"}\n"))
	require.NoError(t, w.Write(event.NewBackupSummary(totals(3, 120), "", false)))
	g, took, err := l.End()
	require.NoError(t, err)
	require.Equal(t, uint64(120), g.Charged)
	require.Equal(t, 3*time.Second, took)
}

func TestSourceIsTheSameEveryTime(t *testing.T) {
	var trees [2]map[string][]byte
	for i := range trees {
		root := t.TempDir()
		require.NoError(t, Filler(7).Tree(t.Context(), root, 64<<10))
		trees[i] = map[string][]byte{}
		files, err := filepath.Glob(filepath.Join(root, "*", "*", "*"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			info, err := os.Stat(f)
			require.NoError(t, err)
			if info.Size() < 1<<20 {
				rel, err := filepath.Rel(root, f)
				require.NoError(t, err)
				trees[i][rel], err = os.ReadFile(f)
				require.NoError(t, err)
			}
		}
	}
	require.Equal(t, trees[0], trees[1])
	require.NotEmpty(t, trees[0])
}
