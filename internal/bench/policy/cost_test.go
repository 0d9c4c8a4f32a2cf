package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/bench/rig"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// requests makes requests of 4 KiB at some milliseconds after start.
func requests(start time.Time, program string, write bool, ms ...float64) (all []rig.Submitted) {
	for _, at := range ms {
		all = append(all, rig.Submitted{
			At: start.Add(time.Duration(at * float64(time.Millisecond))), Write: write, Bytes: 4096, Program: program,
		})
	}
	return all
}

// every returns moments from one to another.
func every(step, from, to float64) (ms []float64) {
	for at := from; at < to; at += step {
		ms = append(ms, at)
	}
	return ms
}

func TestMetricsOfABurst(t *testing.T) {
	start := time.Unix(1000, 0)
	how := paceOf(iopolicy.Throttle, "ssd")
	one := burst{from: start, to: start.Add(time.Second)}
	var all []rig.Submitted
	all = append(all, requests(start, "tidemark", false, every(0.5, -100, 7.2)...)...)  // full speed
	all = append(all, requests(start, "tidemark", false, every(25, 30, 1000)...)...)    // its slot grants
	all = append(all, requests(start, "tidemark", false, every(25, 1000, 1520)...)...)  // and in the window
	all = append(all, requests(start, "tidemark", false, every(0.5, 1520, 1700)...)...) // full speed
	all = append(all, requests(start, "kworker/u8:1", true, every(3, -50, 30)...)...)   // what it had written
	all = append(all, requests(start, "iou-wrk-4711", false, 8)...)                     // one of its threads
	all = append(all, requests(start, "somebody", false, every(1, -1000, 2000)...)...)  // not ours
	values := how.metrics(all, one, "tidemark")
	require.InDelta(t, 8, values["yielded"], 1e-6)
	require.InDelta(t, 28, values["writes until"], 1e-6)
	require.InDelta(t, 520, values["back"], 12, "after the first few requests at full speed")
	require.InDelta(t, 40, values["reads per second afterwards"], 1)

	// One that goes on has not yielded, and is not back either if it then ends.
	values = how.metrics(requests(start, "tidemark", false, every(2, -100, 1000)...), one, "tidemark")
	require.NotContains(t, values, "yielded")
	require.NotContains(t, values, "back")

	// Of one that does not read when the foreground starts nothing is known; one that stops at once has yielded.
	values = how.metrics(requests(start, "tidemark", false, 500), one, "tidemark")
	require.NotContains(t, values, "yielded")
	values = how.metrics(requests(start, "tidemark", false, -1, 500), one, "tidemark")
	require.Zero(t, values["yielded"])
	require.NotContains(t, values, "not reading")
}

func TestPhases(t *testing.T) {
	var sum time.Duration
	kinds := map[string]bool{}
	for _, p := range phases(5 * time.Minute) {
		sum += p.length
		if p.foreground == nil {
			kinds["pause"] = true
		} else {
			kinds[p.foreground.Key] = true
		}
	}
	require.Equal(t, 5*time.Minute, sum)
	require.Len(t, kinds, 1+len(rig.Foregrounds(false)))
	require.Empty(t, phases(0))
}

func TestStatusRows(t *testing.T) {
	text := `{"message_type":"job","pid":7,"status":{"files_done":12,"gates":[{"device":"loop0","state":"waiting",` +
		`"charged":3,"asleep_seconds":[0,0,0.5,1],"impact":{"turn_budget_seconds":0.0125}},` +
		`{"device":"vda","state":"full_speed","charged":1,` +
		`"asleep_seconds":[0,0,0,0]}]}}` + "\nno JSON\n"
	require.Equal(t, []string{"2.50,random,loop0,waiting,0.0125,3,1.500,12", "2.50,random,vda,full_speed,,1,0.000,12"},
		statusRows([]byte(text), 2500*time.Millisecond, "random"))
	for _, row := range statusRows([]byte(text), 0, "pause") {
		require.Equal(t, strings.Count(mixedHead, ","), strings.Count(row, ","))
	}
}

// A backup that was stopped at the bound is never shown as one that has ended.
func TestBackupThatIsNotOver(t *testing.T) {
	b := &bench{}
	b.bound = time.Minute
	add := func(foreground string, round int, key string, v float64) {
		b.Add(partCost, caseName(foreground, first, "throttle"), round, map[string]float64{key: v})
	}
	add(noForeground, 0, "took", 10)
	add(noForeground, 1, "took", 12)
	add("x", 0, "took", 30)
	require.Equal(t, []string{"30.00", "11.00", "3.00"}, b.backupTimes("x", first, "throttle"))
	add("x", 1, "percent done", 37)
	require.Equal(t, []string{"> 60 (37 % done)", "11.00", "> 5.5"}, b.backupTimes("x", first, "throttle"))
	require.Equal(t, []string{"–", "11.00", "–"}, b.backupTimes("y", first, "throttle"))
}

// In a slow round both are slow, and a work that takes twice as long is done half as fast.
func TestCostTable(t *testing.T) {
	b := &bench{pools: map[string][]time.Duration{}}
	b.steps, b.backups = []string{first}, []rig.Candidate{{Name: "off"}}
	b.bound = time.Minute
	b.foregrounds = []string{"random", "git"}
	b.Add(partCost, caseName(noForeground, first, "off"), 0, map[string]float64{"took": 0.5})
	for _, f := range b.chosen() {
		for round, slow := range []float64{1, 3, 1} {
			b.Add(partCost, f.Name+" / "+alone, round, map[string]float64{f.Unit: 2 * slow, "worst second": slow,
				"median second": 2 * slow})
			b.Add(partCost, f.Name+" / "+sham, round, map[string]float64{f.Unit: 2 * slow, "worst second": 0.8 * slow,
				"median second": 2 * slow})
			b.Add(partCost, caseName(f.Name, first, "off"), round, map[string]float64{f.Unit: 4 * slow, "took": 1,
				"worst second": 0.5 * slow, "median second": slow})
		}
		b.pools[f.Name+" / "+alone] = make([]time.Duration, enough)
		b.pools[caseName(f.Name, first, "off")] = []time.Duration{time.Millisecond}
	}
	table := b.costTable()
	require.Contains(t, table, "| random 4 KiB reads | first | off | 4.00 IOPS | 200.0 % "+
		"| 25 % (40 %) | 62 % | 1.00 | 1.00 (few) | 1 |")
	require.Contains(t, table, "| 1.00 | 0.50 | 2.00 | 50 % |\n")
	require.Contains(t, table, "| git status, cold | first | off | 4.00 s | 50.0 % |")
	require.Contains(t, table, "| random 4 KiB reads |  | alone again | 2.00 IOPS | 100.0 % | 40 % |  |")
	require.NotContains(t, table, "1000 random", "which was not measured")
}
