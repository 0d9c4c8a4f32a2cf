package scale

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// table formats the measurements of one size.
func table(s scale) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%d files, %d directories, %.1f MiB\n", s.Tree.Files, s.Tree.Dirs, mib(int64(s.Tree.Bytes)))
	fmt.Fprintf(&out, "%-20s %10s %12s %10s %9s %9s %9s\n", "", "s", "objects/s", "cpu us/obj", "rss MiB", "own", "files")
	for _, step := range stepNames(s) {
		var seconds, rate, cpu, peak, anon, file []float64
		for _, m := range of(s, step) {
			seconds, rate = append(seconds, m.Seconds), append(rate, m.rate())
			cpu = append(cpu, m.CPU*1e6/float64(max(1, m.Objects)))
			peak, anon, file = append(peak, mib(m.Memory.Peak)), append(anon, mib(m.Memory.Anon)), append(file,
				mib(m.Memory.File))
		}
		fmt.Fprintf(&out, "%-20s %10.2f %12.0f %10.2f %9.0f %9.0f %9.0f\n", step, kit.Median(seconds), kit.Median(rate),
			kit.Median(cpu),
			slices.Max(peak), slices.Max(anon), slices.Max(file))
	}
	fmt.Fprintf(&out, "unchanged against the serial walk: %.2f in time, %.2f in CPU\n", s.againstWalk(measurement.rate),
		s.againstWalk(func(m measurement) float64 { return 1 / m.CPU }))
	each := func(n int64) float64 { return float64(n) / float64(s.Tree.Files) }
	e := s.Size
	fmt.Fprintf(&out, "bytes per file: cache %.1f, metadata in the repository %.1f (trees %.1f, tables of packs %.1f, "+
		"index %.1f; %.1f of them are contents of files of up to 60 bytes)\n", each(e.Cache), each(e.metadata()),
		each(e.Trees), each(e.Tables),
		each(e.Index), each(int64(s.Tree.Small)))
	grown := func(a, b int64) float64 { return float64(b-a) / float64(max(1, s.Changed)) }
	fmt.Fprintf(&out, "after the change: cache %.1f per file; metadata grew by %.0f bytes per changed file (%d changed)\n",
		each(s.After.Cache), grown(e.metadata(), s.After.metadata()), s.Changed)
	fmt.Fprintf(&out, "after prune: cache %.1f per file, metadata in the repository %.1f\n", each(s.Pruned.Cache),
		each(s.Pruned.metadata()))
	return out.String()
}

// againstWalk returns the median over the rounds of the ratio of the unchanged backup to the walk.
func (s scale) againstWalk(value func(measurement) float64) float64 {
	var ratios []float64
	for _, a := range of(s, stepUnchanged) {
		for _, w := range of(s, stepWalk) {
			if w.Round == a.Round {
				ratios = append(ratios, value(a)/value(w))
			}
		}
	}
	return kit.Median(ratios)
}

// curve shows how time, memory and sizes go with the number of files.
func curve(all []scale) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%-12s %11s %11s %11s %9s %11s %11s %11s %9s %9s\n", "files", "first", "unchanged", "walk",
		"ratio", "rss first",
		"unchanged", "changed", "cache B", "meta B")
	for _, s := range all {
		line := func(step string, value func(measurement) float64) float64 {
			var v []float64
			for _, m := range of(s, step) {
				v = append(v, value(m))
			}
			return kit.Median(v)
		}
		each := func(m measurement) float64 { return m.Seconds * 1e6 / float64(max(1, m.Objects)) }
		peak := func(m measurement) float64 { return mib(m.Memory.Peak) }
		fmt.Fprintf(&out, "%-12d %8.2f us %8.2f us %8.2f us %9.2f %7.0f MiB %7.0f MiB %7.0f MiB %9.1f %9.1f\n", s.Tree.Files,
			line(stepFirst, each), line(stepUnchanged, each), line(stepWalk, each), s.againstWalk(measurement.rate),
			line(stepFirst, peak), line(stepUnchanged, peak), line(stepChanged, peak),
			float64(s.Size.Cache)/float64(s.Tree.Files), float64(s.Size.metadata())/float64(s.Tree.Files))
	}
	return out.String()
}

func stepNames(s scale) (names []string) {
	for _, m := range s.Steps {
		if !slices.Contains(names, m.Step) {
			names = append(names, m.Step)
		}
	}
	return names
}

func of(s scale, step string) []measurement {
	return slices.DeleteFunc(slices.Clone(s.Steps), func(m measurement) bool { return m.Step != step })
}
