package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-backup/tidemark/internal/benchkit"
	"github.com/tidemark-backup/tidemark/internal/policybench/misses"
	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
	"github.com/tidemark-backup/tidemark/internal/pressure"
)

// sensorNumber is the number of the measurement of the sensor.
const sensorNumber = 6

// touches are the kinds of single foreign operations.
func touches() []string { return []string{"read", "write"} }

// sensor measures what a look costs, by the benchmarks of the package that looks, and what is missed.
func (b *bench) sensor(ctx context.Context) error {
	if err := b.looks(ctx); err != nil {
		b.problem("6: no cost of a look: %v", err)
	}
	for round := range b.runs {
		for _, kind := range turn(touches(), round) {
			if err := b.touched(ctx, kind, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// looks runs the benchmarks.
func (b *bench) looks(ctx context.Context) error {
	out, err := rig.Command(ctx, "go", "test", "-run", "^$", "-bench", ".", "./internal/pressure")
	if err != nil {
		return err
	}
	found := parseBenchmarks(string(out))
	if len(found) == 0 {
		return errors.New("internal/pressure has no benchmarks")
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		b.add(sensorNumber, name, 0, map[string]float64{"ns": found[name]})
	}
	return nil
}

// parseBenchmarks finds nanoseconds by name in the output of go test -bench.
func parseBenchmarks(text string) map[string]float64 {
	found := map[string]float64{}
	line := regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if ns, err := strconv.ParseFloat(m[2], 64); err == nil {
			found[m[1]] = ns
		}
	}
	return found
}

// touched counts how many single operations of a kind are seen.
func (b *bench) touched(ctx context.Context, kind string, round int) error {
	times := misses.Times{Quiet: b.stretched(6 * time.Second), Long: b.stretched(24 * time.Second)}
	res, err := misses.Count(ctx, b.disk, b.medium, kind, times)
	if err != nil {
		return err
	}
	b.add(sensorNumber, kind, round, map[string]float64{
		"touches": float64(res.Touches), "seen": float64(res.Seen), "percent": 100 * float64(res.Seen) / float64(res.Touches),
		"ghosts per minute": float64(res.Ghosts) / times.Quiet.Minutes(), "reads": float64(res.Reads),
	})
	if res.Mode != pressure.Exact {
		b.problem("6: the sensor worked in the mode %q. %s", res.Mode, res.Why)
	}
	return nil
}

func (b *bench) sensorTable() string {
	var rows [][]string
	for _, kind := range touches() {
		var all, seen float64
		for _, r := range b.Of(sensorNumber, kind) {
			all, seen = all+r.Values["touches"], seen+r.Values["seen"]
		}
		if all > 0 {
			name := map[string]string{"read": "4 KiB reads", "write": "4 KiB writes with fsync"}[kind]
			rows = append(rows, []string{"foreign " + name + " seen", fmt.Sprintf("%s of %s: %s %%", number(seen, 0),
				number(all, 0), number(100*seen/all, 1))})
			rows = append(rows, []string{"false sightings per minute before", number(b.Value(sensorNumber, kind, "ghosts per minute"), 1)})
		}
	}
	for _, name := range b.Cases(sensorNumber) {
		if v := b.Value(sensorNumber, name, "ns"); v > 0 {
			rows = append(rows, []string{"cost: " + name, number(v, 0) + " ns"})
		}
	}
	return benchkit.Table([]string{"", ""}, rows...)
}
