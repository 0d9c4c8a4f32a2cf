package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

func snapshotOf(host string, sources ...string) repo.Listed {
	return repo.Listed{Snapshot: &snapshot.Snapshot{Host: host, Sources: sources}}
}

// Host and paths of a snapshot come from another machine: they are escaped before they reach a terminal. Two paths are
// never joined into one key, since a policy is applied to each group.
func TestSnapshotsAreGrouped(t *testing.T) {
	by, err := parseGroupBy("host,paths")
	require.NoError(t, err)
	list := []repo.Listed{snapshotOf("a\x1b[31m", "/x"), snapshotOf("b", "/x, /y"), snapshotOf("b", "/y", "/x"),
		snapshotOf("b", "/x", "/y"), snapshotOf("b", "/x\xff")}
	groups := groupSnapshots(list, by)
	var titles []string
	for _, g := range groups {
		titles = append(titles, g.Heading)
	}
	require.Equal(t, []string{`host a\x1b[31m; paths /x`, "host b; paths /x, /y", "host b; paths /x, /y",
		`host b; paths /x\xff`}, titles)
	require.Len(t, groups[2].List, 2)
	require.Equal(t, []string{"/y", "/x"}, list[2].Snapshot.Sources, "the snapshot is as it was")

	// What was asked for counts, not which file systems were mounted.
	one, other := snapshotOf("b", "/"), snapshotOf("b", "/", "/mnt")
	one.Snapshot.Domain, other.Snapshot.Domain = []string{"ALL-LOCAL"}, []string{"ALL-LOCAL"}
	groups = groupSnapshots([]repo.Listed{one, other, snapshotOf("b", "/")}, by)
	require.Len(t, groups, 2)
	require.Equal(t, "host b; paths ALL-LOCAL", groups[0].Heading)
	require.Len(t, newestOfEach(groups[:1], 1)[0].List, 1)
	line, err := json.Marshal(output.Snapshot(&one).Events()[0])
	require.NoError(t, err)
	require.Contains(t, string(line), `"domain":["ALL-LOCAL"]`)

	newest := newestOfEach(groupSnapshots(list, nil), 1)
	require.Len(t, newest, 1)
	require.Len(t, newest[0].List, 4)
	_, err = parseGroupBy("host,moon")
	require.ErrorContains(t, err, "choose from host, paths and tags")
}
