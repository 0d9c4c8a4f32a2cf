package grouping

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

func of(host string, sources ...string) output.Snapshot {
	return output.Snapshot{Snapshot: &snapshot.Snapshot{Host: host, Sources: sources}}
}

// What a snapshot says of its host and paths comes from another machine. It must not reach a terminal as it is, and two paths are
// not the one that is written like both together: a policy is applied to each group by itself.
func TestSplit(t *testing.T) {
	by, err := Parse("host,paths")
	require.NoError(t, err)
	list := []output.Snapshot{of("a\x1b[31m", "/x"), of("b", "/x, /y"), of("b", "/y", "/x"), of("b", "/x", "/y"), of("b", "/x\xff")}
	groups := Split(list, by)
	var titles []string
	for _, g := range groups {
		titles = append(titles, g.Heading)
	}
	require.Equal(t, []string{`host a\x1b[31m; paths /x`, "host b; paths /x, /y", "host b; paths /x, /y", `host b; paths /x\xff`}, titles)
	require.Len(t, groups[2].List, 2)
	require.Equal(t, []string{"/y", "/x"}, list[2].Snapshot.Sources, "the snapshot is as it was")

	newest := Newest(Split(list, nil), 1)
	require.Len(t, newest, 1)
	require.Len(t, newest[0].List, 4)
	_, err = Parse("host,moon")
	require.ErrorContains(t, err, "choose from host, paths and tags")
}
