package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/bench/picture"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

func TestMomentOfAGate(t *testing.T) {
	g := event.Gate{Policy: "throttle", Medium: "ssd", State: "in_window",
		Impact: &event.Impact{Budget: 0.005, Harm: 0.04, Calculated: 0.3, Measured: 0.04}}
	require.Equal(t, picture.Moment{Seconds: 2.5, Head: picture.Head{Type: picture.AGate}, State: "in_window", Grant: 0.2,
		Calculated: 0.3, Measured: 0.04}, moment(&g, 2500*time.Millisecond))
	g.Policy = "important" // it has no period
	require.Zero(t, moment(&g, 0).Grant)
}

// The curve compares round by round, and its speed is of a candidate's own speed alone.
func TestCurve(t *testing.T) {
	b := &bench{disk: &rig.Disk{}, peers: []rig.Candidate{{Name: "ionice restic", Tool: "restic"}}}
	b.bound, b.foregrounds = 10*time.Second, []string{"random"}
	g := group{partCurve, b.curveCandidates(), []string{first}, b.chosen(curveForegrounds()...)}
	require.Len(t, g.backups, len(impacts())+1)
	require.Len(t, g.trials(), 2*len(g.backups)+2)
	name := g.foregrounds[0].Name
	for round, slow := range []float64{1, 2} {
		b.Add(partCurve, name+" / "+alone, round, map[string]float64{"IOPS": 100 * slow})
		b.Add(partCurve, name+" / "+sham, round, map[string]float64{"IOPS": 99 * slow})
		b.Add(partCurve, caseName(noForeground, first, "ionice restic"), round, map[string]float64{"took": 2})
		b.Add(partCurve, caseName(name, first, "ionice restic"), round, map[string]float64{"IOPS": 50 * slow,
			"percent done": 40})
	}
	for i, took := range []float64{2, 40, 3} { // one was disturbed
		b.Add(partCurve, caseName(noForeground, first, g.backups[i].Name), 0, map[string]float64{"took": took})
	}
	require.Equal(t, 3.0, b.byItself(g.backups, "tidemark"))
	point := func(beside string, round int, kept, speed float64) picture.Point {
		return picture.Point{Head: picture.Head{Type: "point"}, Foreground: name, Beside: beside, Round: round, Kept: kept,
			Speed: speed}
	}
	require.Equal(t, []picture.Point{
		point(picture.Again, 0, 0.99, 0), point(picture.Again, 1, 0.99, 0),
		point("ionice restic", 0, 0.5, 0.08), point("ionice restic", 1, 0.5, 0.08),
	}, b.points(&g)[1:])
	require.Contains(t, b.curveTable(), "| random 4 KiB reads | ionice restic | 50.0 % | 99.0 % | 8.0 % |")
}

func TestBackupsOnAnIdleDiskOnly(t *testing.T) {
	b := &bench{}
	b.foregrounds = []string{"none"}
	g := group{partCost, []rig.Candidate{{Name: "off", Tool: "tidemark"}}, []string{first, unchanged}, b.chosen()}
	require.Len(t, g.trials(), 2)
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
	b.Add(partCost, caseName(noForeground, first, "off"), 0, map[string]float64{"took": 0.5, "asleep": 0.25})
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
	require.Contains(t, table, "| off | 0.50 | 1.000 | 0.25 % |\n")
	require.Contains(t, table, "| random 4 KiB reads | first | off | 4.00 IOPS | 200.0 % "+
		"| 25 % (40 %) | 62 % | 1.00 | 1.00 (few) | 1 |")
	require.Contains(t, table, "| 1.00 | 0.50 | 2.00 | 50 % |\n")
	require.Contains(t, table, "| git status, cold | first | off | 4.00 s | 50.0 % |")
	require.Contains(t, table, "| random 4 KiB reads |  | alone again | 2.00 IOPS | 100.0 % | 40 % |  |")
	require.NotContains(t, table, "1000 random", "which was not measured")
}
