// Package grouping puts snapshots into groups of the same host, paths or tags, each with a title that is safe to show. It refuses
// to know what is done with a group.
package grouping

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Part is a part of a snapshot that it is grouped by.
type Part struct {
	word   string
	values func(*snapshot.Snapshot) []string // in an order of their own
}

func parts() []Part {
	return []Part{
		{"host", func(s *snapshot.Snapshot) []string { return []string{s.Host} }},
		{"paths", func(s *snapshot.Snapshot) []string { return slices.Sorted(slices.Values(s.Sources)) }},
		{"tags", func(s *snapshot.Snapshot) []string { return slices.Sorted(slices.Values(s.Tags)) }},
	}
}

// Parse reads a list of the words host, paths and tags.
func Parse(text string) ([]Part, error) {
	var by []Part
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		i := slices.IndexFunc(parts(), func(k Part) bool { return strings.TrimSuffix(k.word, "s") == strings.TrimSuffix(word, "s") })
		if i < 0 {
			return nil, fmt.Errorf("--group-by %q: choose from host, paths and tags", word)
		}
		by = append(by, parts()[i])
	}
	return by, nil
}

// Split splits a list, keeping its order, and titles the parts.
func Split(list []output.Snapshot, by []Part) []output.Snapshots {
	var groups []output.Snapshots
	at := map[string]int{}
	for _, s := range list {
		var titles []string
		key := ""
		for _, k := range by {
			values := k.values(s.Snapshot)
			key += fmt.Sprintf("%q", values) // what is one path to some is two to others, if it is joined only
			for i := range values {
				values[i] = human.Printable(values[i])
			}
			titles = append(titles, k.word+" "+strings.Join(values, ", "))
		}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, output.Snapshots{Heading: strings.Join(titles, "; ")})
		}
		groups[i].List = append(groups[i].List, s)
	}
	return groups
}

// Newest keeps the last n of each machine and set of paths.
func Newest(groups []output.Snapshots, n int) []output.Snapshots {
	for i := range groups {
		left := map[string]int{}
		var kept []output.Snapshot
		for _, s := range slices.Backward(groups[i].List) {
			key := fmt.Sprintf("%q %q", s.Snapshot.Host, slices.Sorted(slices.Values(s.Snapshot.Sources)))
			if left[key]++; left[key] <= n {
				kept = append(kept, s)
			}
		}
		slices.Reverse(kept)
		groups[i].List = kept
	}
	return groups
}
