package roundtrip

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// treePacks returns the names of the packs of trees.
func treePacks(t *testing.T, st store.Store) (trees []store.Name) {
	t.Helper()
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		if info.Name.OfTrees() {
			trees = append(trees, info.Name)
		}
	}
	return trees
}

// TestIncrementalBackupFetchesNoTrees: the trees of the parent are on this machine, as the run before left them.
func TestIncrementalBackupFetchesNoTrees(t *testing.T) {
	testkit.Slow(t)
	testkit.NoLeaks(t)
	for name, limit := range map[string]int64{"kept": 64 << 20, "not kept": 0} {
		t.Run(name, func(t *testing.T) {
			src := filepath.Join(testkit.TempDir(t), "src")
			testkit.Write(t, src, testkit.Random(3, 400, true))
			st := faultstore.Wrap(mem.New(), faultstore.Plan{})
			e := kit.NewEngine(t, st)
			e.Open.Cache.TreeFrames = limit
			e.Open.Cache.Frames = 1 // nothing from memory
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			for run := range 2 {
				require.NoError(t, os.WriteFile(filepath.Join(src, "changed"), []byte{byte(run)}, 0o600))
				kit.Settle()
				trees := treePacks(t, st)
				require.NotEmpty(t, trees)
				st.Reads()
				_, _, err = e.Backup(e.Job(src))
				require.NoError(t, err)
				reads, all := 0, st.Reads()
				for _, name := range trees {
					reads += all[name]
				}
				if limit > 0 {
					require.Zero(t, reads)
				} else {
					require.NotZero(t, reads, "the test does not show anything")
				}
			}
			e.RequireRestored(src)
		})
	}
}
