package roundtrip

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Files of one directory resemble each other, so they are stored together, although eight directories are scanned at
// the same time. Each file has a hole, so each is a batch of its own.
func TestADirectoryIsStoredTogether(t *testing.T) {
	const dirs, files = 8, 200
	src := testkit.RamDir(t)
	content := func(d, f int) []byte {
		block := make([]byte, 4096)
		copy(block, fmt.Sprintf("%d %d", d, f))
		return block
	}
	for d := range dirs {
		require.NoError(t, os.Mkdir(filepath.Join(src, fmt.Sprint(d)), 0o755))
		for i := range files {
			f, err := os.Create(filepath.Join(src, fmt.Sprint(d), fmt.Sprint(i)))
			require.NoError(t, err)
			_, err = f.WriteAt(content(d, i), 1<<20)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(dirs, 2, 2)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.NoError(t, e.With(func(r *repo.Repository) error {
		from := map[format.ID]int{}
		for d := range dirs {
			for i := range files {
				from[r.Keys().Hasher().ID(content(d, i))] = d
			}
		}
		stored, changes, last := 0, 0, -1
		for info, err := range e.Store.List(t.Context(), store.Pack) {
			require.NoError(t, err)
			id, err := format.ParseID(info.Name.ID)
			require.NoError(t, err)
			table, err := pack.OpenTable(r.Keys(), id, info.Size, func(off int64, p []byte) error {
				return e.Store.Get(context.Background(), info.Name, off, p)
			})
			require.NoError(t, err)
			for _, f := range table.Frames {
				for _, b := range f.Blobs {
					if d, ok := from[b.ID]; ok {
						if stored++; d != last {
							last = d
							changes++
						}
					}
				}
			}
		}
		require.Equal(t, dirs*files, stored)
		// two readers and two workers change the order a little where one directory ends and the next begins
		require.Less(t, changes, 8*dirs)
		return nil
	}))
}
