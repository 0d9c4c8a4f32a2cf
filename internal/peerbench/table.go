package main

import (
	"fmt"
	"slices"
	"strings"
)

// table lays out the measurements of one tree: for each step and tool the median, and the median over the runs of how
// the tool compares with the first one of the same run.
func table(all []measurement) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-14s %-9s %10s %10s %10s %9s\n", "", "", "", "cpu s", "rss MiB", "ratio")
	var stepNames, toolNames []string
	for _, m := range all {
		stepNames, toolNames = unique(stepNames, m.Step), unique(toolNames, m.Tool)
	}
	first := all[0].Tool
	for _, tool := range toolNames {
		if tool == "tidemark" {
			first = tool
		}
	}
	for _, step := range stepNames {
		for _, tool := range toolNames {
			var main, cpu, rss, ratio []float64
			for _, m := range of(all, step, tool) {
				main, cpu, rss = append(main, m.value()), append(cpu, m.CPU), append(rss, mib(m.Memory))
				for _, base := range of(all, step, first) {
					if base.Run == m.Run {
						ratio = append(ratio, m.value()/base.value())
					}
				}
			}
			if step == sizeStep {
				fmt.Fprintf(&out, "%-14s %-9s %6.1f MiB %10s %10s %9.2f\n", step, tool, median(main), "", "", median(ratio))
			} else {
				fmt.Fprintf(&out, "%-14s %-9s %8.2f s %10.2f %10.0f %9.2f\n", step, tool, median(main), median(cpu), median(rss),
					median(ratio))
			}
		}
	}
	return out.String()
}

// value is what a measurement is about: seconds, or MiB of a repository.
func (m measurement) value() float64 {
	if m.Step == sizeStep {
		return mib(m.Bytes)
	}
	return m.Seconds
}

func of(all []measurement, step, tool string) []measurement {
	return slices.DeleteFunc(slices.Clone(all), func(m measurement) bool { return m.Step != step || m.Tool != tool })
}

func unique(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// median returns the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[n/2] + values[(n-1)/2]) / 2
}
