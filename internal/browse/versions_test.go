package browse_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestVersions(t *testing.T) {
	r := initialise(t)
	trees := []format.ID{
		save(t, r, dir{"home": dir{"a": []byte("1"), "b": []byte("1"), "d": dir{"x": []byte("1")}},
			"etc": dir{"c": []byte("1")}}),
		save(t, r, dir{"home": dir{"a": []byte("2"), "b": []byte("1"), "d": dir{"x": []byte("1"), "y": []byte("1")}},
			"etc": dir{"c": []byte("1")}}),
		save(t, r, dir{"home": dir{"b": []byte("1"), "d": dir{"x": []byte("2")}}}), // of /home only
		save(t, r, dir{"home": dir{"a": []byte("1"), "b": []byte("1"), "d": dir{"x": []byte("2")}}}),
	}
	var list []browse.Dated
	numbers := map[format.ID]int{}
	for i, id := range trees {
		sources := []string{"/home"}
		if i < 2 {
			sources = []string{"/home", "/etc/"}
		}
		list = append(list, browse.Dated{Snapshot: browse.Snapshot{ID: id, Tree: id}, Sources: sources})
		numbers[id] = i
	}
	versions := func(q browse.VersionQuery) (all []string) {
		q.Match = func(_ string, n *tree.Node) bool { return n.Type == tree.File }
		require.NoError(t, browse.Versions(context.Background(), r, list, q, func(v browse.Version) error {
			all = append(all, fmt.Sprintf("%s %d-%d %t", v.Path, numbers[v.First], numbers[v.Last], v.Active))
			return nil
		}))
		return all
	}
	require.Equal(t, []string{"/home/a 3-3 true", "/home/b 0-3 true"}, versions(browse.VersionQuery{Dir: "/home"}))
	require.Equal(t, []string{"/home/a 3-3 true", "/home/a 1-1 false", "/home/a 0-0 false", "/home/b 0-3 true",
		"/home/d/x 2-3 true", "/home/d/x 0-1 false", "/home/d/y 1-1 false"},
		versions(browse.VersionQuery{Dir: "/home", Enter: true, Inactive: true}))
	require.Equal(t, []string{"/etc/c 0-1 true"}, versions(browse.VersionQuery{Dir: "/etc"}),
		"later snapshots do not cover it")
	require.Empty(t, versions(browse.VersionQuery{Dir: "/nowhere"}))
	require.Empty(t, versions(browse.VersionQuery{Dir: "/home/a/x"}))
}
