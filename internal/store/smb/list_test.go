package smb_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// TestMisplacedPacks: packs in the folder of other packs are in no list, and are reported where that is asked for.
func TestMisplacedPacks(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, ""), smb.Options{})
	ofTrees, ofData := pack(1), pack(2)
	require.True(t, ofTrees.OfTrees() && !ofData.OfTrees())
	require.NoError(t, st.Put(t.Context(), ofTrees, []byte("x")))
	require.NoError(t, st.Put(t.Context(), ofData, []byte("x")))
	smb.Settle(st)
	for name, where := range map[store.Name]string{
		ofTrees: "packs/02/" + ofTrees.ID, ofData: "trees/" + ofData.ID,
	} {
		require.NoError(t, os.Rename(filepath.Join(s.Folder, name.Path()), filepath.Join(s.Folder, where)))
		var mu sync.Mutex
		found := map[string]store.Name{}
		ctx := store.ReportMisplaced(t.Context(), func(name store.Name, where string) {
			mu.Lock()
			defer mu.Unlock()
			found[where] = name
		})
		for info, err := range st.List(ctx, store.Pack) {
			require.NoError(t, err)
			require.NotEqual(t, name, info.Name)
		}
		require.Equal(t, name, found[where])
	}
}

// TestAFolderIsNoFile: a folder that has the name of a file is in no list, and is reported where that is asked for.
// That of a lease is a fence.
func TestAFolderIsNoFile(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, ""), smb.Options{})
	smb.Settle(st)
	for kind, reported := range map[store.Kind]bool{store.Mark: true, store.Key: true, store.Snapshot: true,
		store.Pack: true, store.Lease: false} {
		name := store.Name{Kind: kind, ID: pack(1).ID}
		if kind == store.Lease {
			name.ID = name.ID[:32]
		}
		require.NoError(t, name.Check())
		require.NoError(t, os.MkdirAll(filepath.Join(s.Folder, name.Path()), 0o700))
		var found []string
		ctx := store.ReportMisplaced(t.Context(), func(_ store.Name, where string) { found = append(found, where) })
		for info, err := range st.List(ctx, kind) {
			require.NoError(t, err)
			require.True(t, info.Fence)
		}
		if reported {
			require.Equal(t, []string{name.Path() + "/"}, found)
		} else {
			require.Empty(t, found)
		}
	}
}
