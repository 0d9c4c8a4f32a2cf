package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/picture"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// impacts returns the values of --max-impact of the curve, in percent.
func impacts() []int { return []int{1, 2, 5, 10, 20} }

// curveForegrounds returns the keys of the foregrounds of the curve if none are named.
func curveForegrounds() []string { return []string{"random", "1000ps", "sequential", "fsync"} }

// curveCandidates returns a backup at throttle for each of the impacts, and restic if it is installed.
func (b *bench) curveCandidates() (list []rig.Candidate) {
	for _, percent := range impacts() {
		c := b.tidemark("throttle", "--max-impact", fmt.Sprint(percent))
		c.Name = fmt.Sprintf("throttle --max-impact %d", percent)
		list = append(list, c)
	}
	for _, c := range b.peers {
		if c.Tool == "restic" {
			list = append(list, c)
		}
	}
	return list
}

// curve measures what foregrounds keep beside a first backup, and how fast that is, by the allowed impact.
func (b *bench) curve(ctx context.Context) error {
	g := group{partCurve, b.curveCandidates(), []string{first}, b.chosen(curveForegrounds()...)}
	err := b.measureGroup(ctx, &g)
	if all := b.points(&g); b.pictures != "" && len(all) > 1 { // what was measured until an error, too
		err = errors.Join(err, picture.Save(b.pictures, picture.Curve, all))
	}
	return err
}

// byItself returns how many seconds a backup of a tool takes without a foreground: the median over its candidates and
// rounds, since --max-impact has no effect on an idle disk.
func (b *bench) byItself(candidates []rig.Candidate, tool string) float64 {
	var all []float64
	for _, c := range candidates {
		for _, r := range b.Of(partCurve, caseName(noForeground, first, c.Name)) {
			if took, ok := r.Values["took"]; ok && c.Tool == tool {
				all = append(all, took)
			}
		}
	}
	return kit.Median(all)
}

// points returns what is drawn.
func (b *bench) points(g *group) []picture.Point {
	all := []picture.Point{{Head: picture.NewHead("tidemark-bench policy -parts curve", b.disk.Describe())}}
	for _, f := range g.foregrounds {
		add := func(beside, name string, speeds map[int]float64) {
			kept := b.kept(g.part, f, name)
			for _, round := range slices.Sorted(maps.Keys(kept)) {
				if speed, ok := speeds[round]; ok || beside == picture.Again {
					all = append(all, picture.Point{Head: picture.Head{Type: "point"}, Foreground: f.Name, Beside: beside,
						Round: round, Kept: rounded(kept[round]), Speed: rounded(speed)})
				}
			}
		}
		add(picture.Again, f.Name+" / "+sham, nil)
		for _, c := range g.backups {
			name := caseName(f.Name, first, c.Name)
			add(c.Name, name, b.speeds(g.part, name, b.byItself(g.backups, c.Tool)))
		}
	}
	return all
}

func (b *bench) curveTable() string {
	var rows [][]string
	for _, f := range b.chosen(curveForegrounds()...) {
		again := percent(100*median(b.kept(partCurve, f, f.Name+" / "+sham)), 1)
		for _, c := range b.curveCandidates() {
			if name := caseName(f.Name, first, c.Name); len(b.Of(partCurve, name)) > 0 {
				rows = append(rows, []string{f.Name, c.Name, percent(100*median(b.kept(partCurve, f, name)), 1), again,
					percent(100*median(b.speeds(partCurve, name, b.byItself(b.curveCandidates(), c.Tool))), 1)})
			}
		}
	}
	return kit.Table([]string{"foreground", "beside", "kept", "alone again", "speed of the backup"}, rows...)
}
