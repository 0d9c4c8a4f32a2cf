package damage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestParentTreesDamaged: the trees that a backup compares with, or reuses, are gone or wrong. It reads such files
// again, and reports that.
func TestParentTreesDamaged(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	harms := map[string]func(t *testing.T, st store.Store, name store.Name){
		"missing": func(t *testing.T, st store.Store, name store.Name) {
			require.NoError(t, st.Delete(context.Background(), name))
		},
		"flipped": func(t *testing.T, st store.Store, name store.Name) {
			data := kit.Load(t, st, name)
			for i := 100; i < len(data); i += 50 {
				data[i] ^= 1
			}
			require.NoError(t, st.Put(context.Background(), name, data))
		},
		"cut": func(t *testing.T, st store.Store, name store.Name) {
			require.NoError(t, st.Put(context.Background(), name, kit.Load(t, st, name)[:120]))
		},
	}
	for name, harm := range harms {
		for _, noMemory := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, no memory %v", name, noMemory), func(t *testing.T) { parentDamaged(t, harm, noMemory) })
		}
	}
}

func parentDamaged(t *testing.T, harm func(*testing.T, store.Store, store.Name), noMemory bool) {
	src := testkit.RamDir(t)
	kit.Written(t, src, map[string]string{"a/b/f": "f", "a/g": "g", "c/d/h": "h", "top": "top"})
	kit.Settle()
	st := mem.New()
	e := kit.NewEngine(t, st)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	packs := kit.EveryFile(t, st)
	require.NoError(t, os.WriteFile(filepath.Join(src, "c/d/h"), []byte("changed"), 0o644))
	kit.Settle()
	for _, name := range packs { // the content of these files is in their nodes, so all packs hold trees
		if name.Kind == store.Pack {
			harm(t, st, name)
		}
	}
	e.Open.Cache.Dir = copyOfCache(t, e.Open.Cache.Dir)
	job := e.Job(src)
	job.NoDirCache = noMemory
	made, _, err := e.Backup(job)
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	var reported bool
	for _, i := range e.Ledger.Issues() {
		reported = reported || i.Remark
	}
	require.True(t, reported, "that a tree could not be read is worth a remark")
	got := e.Objects(made.Snapshot.Tree, src)
	require.Equal(t, "changed", got["c/d/h"].Data)
	require.Len(t, got, 8)
	e.RequireRestored(src)

	made, _, err = e.Backup(job) // the damage is healed
	require.NoError(t, err)
	for _, i := range e.Ledger.Issues() { // directories above the source may have changed
		require.NotContains(t, i.Path+i.Err.Error(), src)
	}
	require.Len(t, e.Objects(made.Snapshot.Tree, src), 8)
}

// copyOfCache keeps the signatures of directories, and leaves out the trees that are kept here.
func copyOfCache(t *testing.T, dir string) string {
	t.Helper()
	to := testkit.RamDir(t)
	matches, err := filepath.Glob(filepath.Join(dir, "*", "dirs"))
	require.NoError(t, err)
	require.Len(t, matches, 1)
	rel, err := filepath.Rel(dir, matches[0])
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(filepath.Join(to, rel), os.DirFS(matches[0])))
	return to
}
