package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

func TestLayout(t *testing.T) {
	id := strings.Repeat("6e", 32)
	var paths []string
	for kind := range store.Kinds() {
		n := store.Name{Kind: kind, ID: id}
		if kind == store.Config {
			n.ID = ""
		}
		require.NoError(t, n.Check())
		require.Equal(t, n.Path(), n.String())
		paths = append(paths, n.Path())
	}
	require.Equal(t, []string{
		"config", "keys/" + id, "packs/6e/" + id, "index/" + id, "snapshots/" + id, "leases/" + id, "marks/" + id,
	}, paths)
	require.Equal(t, "packs/a/a", store.Name{Kind: store.Pack, ID: "a"}.Path())
	for i, digit := range "0123456789abcdef" {
		n := store.Name{Kind: store.Pack, ID: "2" + string(digit)}
		require.Equal(t, i%2 == 1, n.OfTrees())
		if n.OfTrees() {
			require.Equal(t, "trees/"+n.ID, n.Path())
		}
	}
	require.False(t, store.Name{Kind: store.Index, ID: "1"}.OfTrees())
	require.Equal(t, []string{"keys", "packs", "index", "snapshots", "leases", "marks", "trees"},
		slices.Collect(store.Folders()))
}

func TestCheckRefuses(t *testing.T) {
	for _, n := range []store.Name{
		{}, {Kind: 8, ID: "a"}, {Kind: store.Config, ID: "a"}, {Kind: store.Key}, {Kind: store.Key, ID: "A"},
		{Kind: store.Key, ID: "a.b"}, {Kind: store.Key, ID: strings.Repeat("a", 65)},
	} {
		require.ErrorIs(t, n.Check(), store.ErrName, "%#v", n)
	}
}

func FuzzValidID(f *testing.F) {
	for _, s := range []string{"", "a", "0f", "AB", "../x", "tmp-tidemark-00", strings.Repeat("0", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		ok := len(id) >= 1 && len(id) <= store.MaxIDLen && strings.Trim(id, "0123456789abcdef") == ""
		require.Equal(t, ok, store.ValidID(id))
		require.Equal(t, ok, store.Name{Kind: store.Pack, ID: id}.Check() == nil)
	})
}
