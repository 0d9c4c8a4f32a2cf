package roundtrip

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestExcludedNameIsNeverLookedAt: a backup must not even stat an excluded name, since that hangs on a mount with an
// unreachable server. An access would trigger an automatic mount. Here it fails instead, in a directory without search
// permission.
func TestExcludedNameIsNeverLookedAt(t *testing.T) {
	if kit.AsNobody(t) {
		return
	}
	dir := testkit.TempDir(t)
	src := filepath.Join(dir, "src")
	kit.Written(t, src, map[string]string{"seen/hangs": "x", "seen/.hidden": "x", "hangs/below": "x"})
	require.NoError(t, os.Chmod(filepath.Join(src, "seen"), 0o400)) // may be listed, but its entries not be looked at
	require.NoError(t, os.Chmod(filepath.Join(src, "hangs"), 0))
	kit.Settle()
	b := rules.NewBuilder()
	require.NoError(t, b.Exclude("hangs", false, "test"))
	require.NoError(t, b.Exclude(".hid*", false, "test"))
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	job.Source.Rules = b.Compile()
	made, totals, err := e.Backup(job)
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.EqualValues(t, 3, totals.Objects.Excluded)
	require.NotContains(t, e.Objects(made.Snapshot.Tree, src), "hangs")

	bare := e.Job(src) // the same without the rules fails, so the test could
	_, _, err = e.Backup(bare)
	require.NoError(t, err)
	require.Len(t, e.Failures(), 3)
}
