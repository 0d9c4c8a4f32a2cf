package enginetest

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
)

// TestForceHealsAbsentPacks: the index names packs that are not there, as after a repository was set back to an earlier
// state, and snapshots need them. A backup that reads everything stores anew what was in them; then all snapshots can be
// read again, and a check has nothing to say.
func TestForceHealsAbsentPacks(t *testing.T) {
	for _, cache := range []bool{true, false} {
		t.Run(fmt.Sprintf("cache %v", cache), func(t *testing.T) {
			src := ramDir(t)
			random := rand.NewChaCha8([32]byte{1})
			for i := range 5 {
				data := make([]byte, 300<<10)
				_, _ = random.Read(data)
				require.NoError(t, os.WriteFile(filepath.Join(src, fmt.Sprintf("f%d", i)), data, 0o644))
			}
			st := mem.New()
			e := newEngine(t, st)
			_, _, err := e.backup(e.job(src))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(src, "small"), []byte("small"), 0o644))
			_, _, err = e.backup(e.job(src))
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
			require.Len(t, e.problems(), len(absent))

			if !cache {
				e.open.CacheDir = ramDir(t)
			}
			job := e.job(src)
			job.Source.Comparing.Force, job.NoMemory = true, !cache
			_, _, err = e.backup(job)
			require.NoError(t, err)
			require.Empty(t, e.failures())
			require.Empty(t, e.problems())
			for _, dir := range []string{e.open.CacheDir, ramDir(t)} { // what this machine knows, and a fresh one
				e.open.CacheDir = dir
				e.requireEverySnapshotReadable(src)
				e.requireRestored(src)
			}
		})
	}
}
