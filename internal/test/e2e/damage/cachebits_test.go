package damage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestRestoreWithDamagedCache: the local cache has lost packs or blobs. Everything is restored, and the cache is made
// again.
func TestRestoreWithDamagedCache(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, lost := range []string{"packs", "blobs", "filter", "segments"} {
		t.Run(lost, func(t *testing.T) {
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
			db, err := bolt.Open(matches[0], 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bolt.Tx) error {
				var keys [][]byte
				b := tx.Bucket([]byte(lost))
				err := b.ForEach(func(k, _ []byte) error { keys = append(keys, bytes.Clone(k)); return nil })
				for _, k := range keys {
					if err == nil {
						err = b.Delete(k)
					}
				}
				require.NotEmpty(t, keys)
				return err
			}))
			require.NoError(t, db.Close())
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
