package browse_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
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
	var list []repo.Listed
	numbers := map[format.ID]int{}
	for i, id := range trees {
		sources := []string{"/home"}
		if i < 2 {
			sources = []string{"/home", "/etc/"}
		}
		list = append(list, listed(id, id, sources...))
		numbers[id] = i
	}
	versions := func(q browse.VersionQuery) (all []string) {
		q.Match = func(_ string, n *tree.Node) bool { return n.Type == tree.File }
		require.NoError(t, browse.Versions(context.Background(), r.LoadBlob, list, q, func(v browse.Version) error {
			all = append(all, fmt.Sprintf("%s %d-%d %t", v.Path, numbers[v.First.ID], numbers[v.Last.ID], v.Active))
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

// TestVersionsOfContents: other metadata, or another directory page, is no other content; another type or target is.
func TestVersionsOfContents(t *testing.T) {
	r := initialise(t)
	file := func(content string, mode uint32) *tree.Node {
		return &tree.Node{Name: "f", Type: tree.File, Mode: mode, Links: 1, Size: uint64(len(content)),
			Content: tree.Content{Inline: []byte(content)}}
	}
	link := func(to string) *tree.Node {
		return &tree.Node{Name: "f", Type: tree.Symlink, Mode: 0o777, Links: 1, Target: to}
	}
	var list []repo.Listed
	for _, n := range []*tree.Node{file("1", 0o600), file("1", 0o644), nil, file("1", 0o644), file("2", 0o644),
		link("a"), link("b"), link("b")} {
		d := dir{"other": []byte(fmt.Sprint(len(list)))}
		if n != nil {
			d["f"] = n
		}
		list = append(list, listed(format.ID{}, save(t, r, d), "/"))
	}
	for i := range list {
		list[i].ID[0] = byte(i)
	}
	var got []string
	q := browse.VersionQuery{Dir: "/", Inactive: true, Contents: true,
		Match: func(at string, _ *tree.Node) bool { return at == "/f" }}
	require.NoError(t, browse.Versions(t.Context(), r.LoadBlob, list, q, func(v browse.Version) error {
		got = append(got, fmt.Sprintf("%d-%d %d %t %#o", v.First.ID[0], v.Last.ID[0], v.Count, v.Active, v.Node.Mode))
		return nil
	}))
	require.Equal(t, []string{"6-7 2 true 0777", "5-5 1 false 0777", "4-4 1 false 0644", "3-3 1 false 0644",
		"0-1 2 false 0644"}, got)
}
