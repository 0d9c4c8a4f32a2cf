package damage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestRestoreWithDamagedCache: the local cache has lost a page: the head, or one of the packs, blobs, their beginnings,
// filter or segments. Everything is restored, and the cache is made again.
func TestRestoreWithDamagedCache(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for lost, what := range []string{"head", "packs", "blobs", "beginnings", "filter", "segments"} {
		t.Run(what, func(t *testing.T) {
			src := testkit.RamDir(t)
			files := make(map[string]string)
			for i := range 50 {
				files[fmt.Sprintf("d%d/f%d", i%5, i)] = strings.Repeat(fmt.Sprintf("%d of many. ", i), 2000)
			}
			kit.Written(t, src, files)
			kit.Settle()
			e := kit.NewEngine(t, nil)
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			matches, err := filepath.Glob(filepath.Join(e.Open.Cache.Dir, "*", "runs", "*"))
			require.NoError(t, err)
			require.Len(t, matches, 1)
			data, err := os.ReadFile(matches[0])
			require.NoError(t, err)
			require.Len(t, data, 6*4096)
			clear(data[lost*4096:][:4096])
			require.NoError(t, os.WriteFile(matches[0], data, 0o600))
			before, err := os.Stat(matches[0])
			require.NoError(t, err)
			e.RequireRestored(src)
			e.RequireRestored(src) // a restore whose last look-up finds the damage leaves the run to the next one
			after, err := os.Stat(matches[0])
			require.NoError(t, err)
			require.False(t, os.SameFile(before, after))
		})
	}
}
