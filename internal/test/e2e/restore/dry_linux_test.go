package restore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestDryRunCountsWhatTheRunCounts: a dry run has the numbers of the run that follows it, names each object once, and
// does not count the holes of a file as bytes to be written.
func TestDryRunCountsWhatTheRunCounts(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	testkit.Write(t, src, testkit.Dir{
		"sparse":     testkit.Sparse{Size: 1 << 40},
		"equal":      testkit.File{Data: []byte("equal"), Mtime: time.Unix(1.6e9, 7)},
		"changed":    testkit.File{Data: testkit.Noise(1, 3_000_000)},
		"touched":    testkit.File{Data: []byte("touched"), Mtime: time.Unix(1.6e9, 7)},
		"gone":       testkit.File{Data: []byte("gone")},
		"link":       testkit.Symlink{Target: "equal"},
		"fifo":       testkit.Fifo{},
		"sub":        testkit.Dir{"a": testkit.File{Data: []byte("twice")}, "b": testkit.Hardlink{To: "sub/a"}},
		"in the way": testkit.File{Data: []byte("x")},
	})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	spoil := func() {
		_, err = e.Restore(src, kit.Target(dst))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dst, "changed"), []byte("other"), 0o644))
		require.NoError(t, os.Chtimes(filepath.Join(dst, "touched"), time.Now(), time.Now()))
		require.NoError(t, os.Remove(filepath.Join(dst, "gone")))
		require.NoError(t, os.Remove(filepath.Join(dst, "sparse")))
		require.NoError(t, os.Remove(filepath.Join(dst, "fifo")))
		require.NoError(t, os.Remove(filepath.Join(dst, "sub/b")))
		require.NoError(t, os.Remove(filepath.Join(dst, "in the way")))
		kit.Written(t, dst, map[string]string{"extra/deep/file": "x", "extra/file": "x", "in the way/file": "x"})
	}
	for _, remove := range []bool{false, true} {
		for i, rule := range []string{"always", "if-changed", "if-newer", "never"} {
			require.NoError(t, os.RemoveAll(dst))
			spoil()
			to := restore.Target{Path: dst, Delete: remove, Overwrite: restore.Overwrite(i), DryRun: true}
			named := map[string]string{}
			e.Ledger = report.NewJob(report.Restore, time.Now)
			require.NoError(t, e.With(func(r *repo.Repository) error {
				found, err := r.FindSnapshot(t.Context(), repo.Latest, repo.Filter{})
				require.NoError(t, err)
				_, err = restore.Run(context.Background(), r, restore.Selection{
					Tree: found.Snapshot.Tree, Sub: src, Sources: found.Snapshot.Sources,
					Planned: func(path, what, why string) {
						name := strings.TrimPrefix(path, src+"/")
						require.NotContains(t, named, name)
						named[name] = what + ": " + why
					},
				}, to, 2, e.Ledger)
				return err
			}))
			dry, dryFailures := e.Ledger.Snapshot(), e.Failures()
			to.DryRun = false
			run, err := e.Restore(src, to)
			require.NoError(t, err)
			require.Equal(t, run.Objects, dry.Objects, "%s, delete %v", rule, remove)
			require.Equal(t, run.Bytes.Written, dry.Bytes.Written, "%s, delete %v", rule, remove)
			require.Len(t, dryFailures, len(e.Failures()), "%s, delete %v", rule, remove)
			require.Less(t, dry.Bytes.Written, uint64(4_000_000))
			require.Equal(t, "restore: it is not there", named["gone"])
			if rule == "always" {
				require.Equal(t, "replace: its size differs", named["changed"])
				require.Equal(t, "update: times differ", named["touched"])
				require.Equal(t, "leave: it is the same", named["equal"])
			}
			if remove {
				require.Equal(t, "delete: it is not in the snapshot", named["extra"])
			}
		}
	}
}
