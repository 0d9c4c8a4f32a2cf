package roundtrip

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestMetadataOfThePlatformComesBack: what this system keeps of an object, and another one does not. metadata makes a
// tree with it, and a part of the line that the comparison prints for each path if it is lost.
func TestMetadataOfThePlatformComesBack(t *testing.T) {
	testkit.Slow(t)
	tree, lost := metadata(t)
	base := testkit.TempDir(t)
	src, bare := filepath.Join(base, "src"), filepath.Join(base, "bare")
	testkit.Write(t, src, tree)
	writeOut(t, src)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	made, totals, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Zero(t, totals.Failures)
	e.RequireRestored(src)

	again, totals, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read, "an unchanged tree was read")
	require.Equal(t, e.Subtree(made, src), e.Subtree(again, src))

	// The comparison sees each of them: a tree without differs in all.
	plain := testkit.Dir{}
	for name, entry := range tree {
		if with, ok := entry.(testkit.With); ok {
			entry = with.Of
		}
		plain[name] = entry
	}
	testkit.Write(t, bare, plain)
	lines := testkit.Compare(t.Context(), src, bare, testkit.CompareOptions{})
	for _, path := range slices.Sorted(maps.Keys(lost)) {
		require.True(t, slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, path) && strings.Contains(line, lost[path])
		}), "%s: %s is not among\n%s", path, lost[path], strings.Join(lines, "\n"))
	}

	// Over objects that lack it, a restore sets it too.
	_, err = e.Restore(src, restore.Target{Path: bare})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Empty(t, testkit.Compare(t.Context(), src, bare, testkit.CompareOptions{}))
}
