package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestNumber(t *testing.T) {
	require.Equal(t, "–", number(math.NaN(), 1))
	require.Equal(t, []string{"1234", "12.3", "1.23", "0.123"},
		[]string{digits(1234.5), digits(12.34), digits(1.234), digits(0.1234)})
}

func TestTurn(t *testing.T) {
	all := []int{1, 2, 3}
	require.Equal(t, []int{1, 2, 3}, turn(all, 0))
	require.Equal(t, []int{3, 1, 2}, turn(all, 5))
	require.Equal(t, []int{1, 2, 3}, all)
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

func TestParseBenchmarks(t *testing.T) {
	require.Equal(t, map[string]float64{"Look/sda": 1720.5, "Submitted": 310}, parseBenchmarks(`goos: linux
BenchmarkLook/sda-2         	  696962	      1720.5 ns/op	       0 B/op
BenchmarkSubmitted          	 3000000	       310 ns/op
PASS`))
	require.Empty(t, parseBenchmarks("no test files"))
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
