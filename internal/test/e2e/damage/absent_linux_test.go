package damage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestForceHealsAbsentPacks: the index names missing packs that snapshots need, as after a repository was set back to
// an earlier state. A backup that reads everything stores their contents again. Then all snapshots can be read again,
// and a check reports nothing.
func TestForceHealsAbsentPacks(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, cache := range []bool{true, false} {
		t.Run(fmt.Sprintf("cache %v", cache), func(t *testing.T) {
			src := testkit.RamDir(t)
			random := rand.NewChaCha8([32]byte{1})
			for i := range 5 {
				data := make([]byte, 300<<10)
				_, _ = random.Read(data)
				require.NoError(t, os.WriteFile(filepath.Join(src, fmt.Sprintf("f%d", i)), data, 0o644))
			}
			st := mem.New()
			e := kit.NewEngine(t, st)
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(src, "small"), []byte("small"), 0o644))
			_, _, err = e.Backup(e.Job(src))
			require.NoError(t, err)
			var absent []store.Name
			for info, err := range st.List(context.Background(), store.Pack) {
				require.NoError(t, err)
				if info.Size > 200<<10 { // those of file data
					absent = append(absent, info.Name)
				}
			}
			require.NotEmpty(t, absent)
			for _, name := range absent {
				require.NoError(t, st.Delete(context.Background(), name))
			}
			require.Len(t, e.Problems(), len(absent))

			if !cache {
				e.Open.Cache.Dir = testkit.RamDir(t)
			}
			job := e.Job(src)
			job.Source.Comparing.Force, job.NoDirCache = true, !cache
			_, _, err = e.Backup(job)
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			require.Empty(t, e.Problems())
			for _, dir := range []string{e.Open.Cache.Dir, testkit.RamDir(t)} { // what this machine knows, and a fresh one
				e.Open.Cache.Dir = dir
				e.RequireEverySnapshotReadable(src)
				e.RequireRestored(src)
			}
		})
	}
}
