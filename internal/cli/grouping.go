package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// groupKey is a property that snapshots are grouped by.
type groupKey struct {
	word   string
	values func(*snapshot.Snapshot) []string // sorted
}

func groupKeys() []groupKey {
	return []groupKey{
		{"host", func(s *snapshot.Snapshot) []string { return []string{s.Host} }},
		{"paths", func(s *snapshot.Snapshot) []string { return slices.Sorted(slices.Values(s.Asked())) }},
		{"tags", func(s *snapshot.Snapshot) []string { return slices.Sorted(slices.Values(s.Tags)) }},
	}
}

// parseGroupBy reads a list of the words host, paths and tags.
func parseGroupBy(text string) ([]groupKey, error) {
	var by []groupKey
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		i := slices.IndexFunc(groupKeys(),
			func(k groupKey) bool { return strings.TrimSuffix(k.word, "s") == strings.TrimSuffix(word, "s") })
		if i < 0 {
			return nil, fmt.Errorf("--group-by %q: choose from host, paths and tags", word)
		}
		by = append(by, groupKeys()[i])
	}
	return by, nil
}

// groupSnapshots splits a list by keys, keeps its order, and gives each group a title that is safe to print.
func groupSnapshots(list []repo.Listed, by []groupKey) []output.Snapshots {
	var groups []output.Snapshots
	at := map[string]int{}
	for _, s := range list {
		var titles []string
		key := ""
		for _, k := range by {
			values := k.values(s.Snapshot)
			key += fmt.Sprintf("%q", values) // quoted: "/x, /y" is one path or two
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

// newestOfEach keeps the last n of each machine and set of paths.
func newestOfEach(groups []output.Snapshots, n int) []output.Snapshots {
	for i := range groups {
		left := map[string]int{}
		var kept []repo.Listed
		for _, s := range slices.Backward(groups[i].List) {
			key := fmt.Sprintf("%q %q", s.Snapshot.Host, slices.Sorted(slices.Values(s.Snapshot.Asked())))
			if left[key]++; left[key] <= n {
				kept = append(kept, s)
			}
		}
		slices.Reverse(kept)
		groups[i].List = kept
	}
	return groups
}
