package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestMedian(t *testing.T) {
	require.True(t, math.IsNaN(median(nil)))
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{3, 9, 1, 2}), 0)
	require.Equal(t, "–", number(median(nil), 1))
	require.Equal(t, []string{"1234", "12.3", "1.23", "0.123"},
		[]string{digits(1234.5), digits(12.34), digits(1.234), digits(0.1234)})
}

// In a slow round both cases are slow, which the ratio must not show.
func TestRatiosAreTakenRoundByRound(t *testing.T) {
	b := &bench{}
	for round, slow := range []float64{1, 10, 2} {
		b.add(1, "throttle", round, map[string]float64{"first": 3 * slow})
		b.add(1, "off", round, map[string]float64{"first": 2 * slow})
	}
	b.add(1, "off", 3, map[string]float64{"first": 99}) // of a round that throttle had no part in
	require.InDelta(t, 1.5, b.ratio(1, "throttle", "off", "first"), 1e-9)
	require.InDelta(t, 6, b.value(1, "throttle", "first"), 0)
	require.True(t, math.IsNaN(b.ratio(1, "throttle", "off", "unchanged")))
	require.Equal(t, []string{"off", "throttle"}, b.cases(1, []string{"off", "important", "throttle"}))
}

func TestTurn(t *testing.T) {
	all := []int{1, 2, 3}
	require.Equal(t, []int{1, 2, 3}, turn(all, 0))
	require.Equal(t, []int{3, 1, 2}, turn(all, 5))
	require.Equal(t, []int{1, 2, 3}, all)
}

func TestMarkdown(t *testing.T) {
	require.Equal(t, "| a | b |\n|---|---|\n| 1 | 2 |\n", markdown([]string{"a", "b"}, [][]string{{"1", "2"}}))
}

// series makes samples 5 ms apart from a rate in bytes per sample, which may change.
func series(start time.Time, rates ...int) []sample {
	all := []sample{{start, 0}}
	for _, r := range rates {
		last := all[len(all)-1]
		all = append(all, sample{last.at.Add(sampleEvery), last.bytes + uint64(r)})
	}
	return all
}

func repeat(n, rate int) (rates []int) {
	for range n {
		rates = append(rates, rate)
	}
	return rates
}

// floorRates is one operation every 25 ms: each fifth sample.
func floorRates(n int) (rates []int) {
	for i := range n {
		rate := 0
		if i%5 == 0 {
			rate = 128 << 10
		}
		rates = append(rates, rate)
	}
	return rates
}

func TestYielded(t *testing.T) {
	may := allowance{25 * time.Millisecond, 128 << 10}
	start := time.Unix(1000, 0)
	at := func(all []sample) time.Duration {
		moment, ok := may.yielded(all)
		require.True(t, ok)
		return moment.Sub(start)
	}
	require.Equal(t, time.Duration(0), at(series(start, floorRates(100)...)), "at its floor from the beginning")
	require.Equal(t, time.Duration(0), at(series(start, repeat(100, 0)...)))

	// 1 MiB every 5 ms for 20 ms: the last of them ends at 20 ms, and all of it is more than may be.
	full := append(repeat(4, 1<<20), floorRates(100)...)
	require.Equal(t, 20*time.Millisecond, at(series(start, full...)))

	// Fifty percent above the floor for as long as the foreground ran is no yielding.
	_, ok := may.yielded(series(start, repeat(100, 128<<10*3/10)...))
	require.False(t, ok)
	_, ok = may.yielded(nil)
	require.False(t, ok)
}

func TestBack(t *testing.T) {
	may := allowance{25 * time.Millisecond, 128 << 10}
	start := time.Unix(1000, 0)
	_, ok := may.back(series(start, floorRates(200)...))
	require.False(t, ok, "at its floor it is not back")
	moment, ok := may.back(series(start, append(floorRates(100), 1<<20)...))
	require.True(t, ok)
	require.Equal(t, 505*time.Millisecond, moment.Sub(start))
}

func TestSamplesWithin(t *testing.T) {
	start := time.Unix(1000, 0)
	all := series(start, repeat(10, 1)...)
	require.Len(t, within(all, start.Add(5*time.Millisecond), start.Add(20*time.Millisecond)), 3)
	require.Empty(t, within(all, start.Add(time.Second), start.Add(2*time.Second)))
	require.Empty(t, within(nil, start, start.Add(time.Second)))
}

func TestMissing(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	gaps := []span{{at(1), at(3)}, {at(8), at(20)}}
	require.InDelta(t, 0.4, missing(gaps, at(0), at(10)), 1e-9)
	require.InDelta(t, 0, missing(gaps, at(3), at(8)), 1e-9)
}

func TestMatch(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	done := []span{{at(10), at(11)}, {at(500), at(501)}, {at(900), at(901)}}
	began := []time.Time{at(5), at(12), at(700), at(902)}
	for name, c := range map[string]struct {
		seen []time.Time
		want int
	}{
		"nothing":                          {nil, 0},
		"before is not it":                 {[]time.Time{at(9)}, 0},
		"while it goes on":                 {[]time.Time{at(10)}, 1},
		"soon after our next operation":    {[]time.Time{at(112)}, 1},
		"too late":                         {[]time.Time{at(113)}, 0},
		"our next operation may come late": {[]time.Time{at(800)}, 1},
		"all":                              {[]time.Time{at(12), at(701), at(950)}, 3},
	} {
		require.Equal(t, c.want, match(done, began, c.seen), name)
	}
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

func TestParseBenchmarks(t *testing.T) {
	require.Equal(t, map[string]float64{"Look/sda": 1720.5, "Submitted": 310}, parseBenchmarks(`goos: linux
BenchmarkLook/sda-2         	  696962	      1720.5 ns/op	       0 B/op
BenchmarkSubmitted          	 3000000	       310 ns/op
PASS`))
	require.Empty(t, parseBenchmarks("no test files"))
}

func TestParseIO(t *testing.T) {
	require.Equal(t, uint64(4096+8192), parseIO("rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n"))
	require.Zero(t, parseIO(""))
}

func TestEventsOfGates(t *testing.T) {
	var l eventLog
	_, _, err := l.end()
	require.ErrorIs(t, err, errNoGates)
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
	g, _, err := l.since(from, time.Now())
	require.NoError(t, err)
	require.Equal(t, "sda", g.Device)
	require.Equal(t, uint64(80), g.Charged)
	require.InDelta(t, 2, g.Engaged, 0)
	require.InDelta(t, 4, asleep(&g), 0)
	_, _, err = l.since(time.Now(), time.Now().Add(time.Second))
	require.ErrorIs(t, err, errNoGates)

	_, _ = l.Write([]byte("ething else\"}\n"))
	require.NoError(t, w.Write(event.NewBackupSummary(totals(3, 120), "", false)))
	g, took, err := l.end()
	require.NoError(t, err)
	require.Equal(t, uint64(120), g.Charged)
	require.Equal(t, 3*time.Second, took)
}

func TestSourceIsTheSameEveryTime(t *testing.T) {
	var trees [2]map[string][]byte
	for i := range trees {
		root := t.TempDir()
		require.NoError(t, filler(7).tree(t.Context(), root, 64<<10))
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

func TestPeriods(t *testing.T) {
	require.Equal(t, 25*time.Millisecond, period(iopolicy.Throttle, "ssd"))
	require.Equal(t, 85*time.Millisecond, period(iopolicy.Utility, "hdd"))
	require.Len(t, rateCases(), 6)
}

// Every table can be made of nothing, and then says so instead of inventing something.
func TestTablesOfNothing(t *testing.T) {
	for i, m := range measurements() {
		b := &bench{settings: settings{medium: "ssd"}}
		table := m.table(b)
		require.Contains(t, table, "|---", i+1)
		require.NotContains(t, table, "NaN", i+1)
	}
}

func TestTheOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foreground")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(foregroundSize)) // sparse
	require.NoError(t, f.Close())
	var out bytes.Buffer
	err = touchOnDemand(path, strings.NewReader("read\nwrite\nread\n"), &out)
	if err != nil && strings.Contains(err.Error(), "invalid argument") {
		t.Skip("the temporary directory does not know direct I/O")
	}
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
	require.ErrorContains(t, touchOnDemand(path, strings.NewReader("dance\n"), &out), "neither read nor write")
}
