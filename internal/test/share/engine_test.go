package share

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// list runs through what a person does with a repository: a backup, one of a tree that did not change, one of a tree
// that did, a check and a restore.
func (m *machine) list(src string) {
	m.T.Helper()
	first, _ := m.requireBackup(m.job(src))
	m.requireSound(src)
	_, before := m.st.promises(store.Pack)

	same, totals := m.requireBackup(m.job(src))
	require.Zero(m.T, totals.Bytes.Read, "an unchanged tree was read")
	_, after := m.st.promises(store.Pack)
	require.Less(m.T, after-before, packSize/4, "an unchanged tree was sent again")

	written(m.T, src, 77, map[string]int{"new/file": 300_000})
	require.NoError(m.T, os.Remove(filepath.Join(src, "large")))
	kit.Settle()
	before = after
	changed, _ := m.requireBackup(m.job(src))
	_, after = m.st.promises(store.Pack)
	require.Greater(m.T, after-before, 300_000)
	require.Less(m.T, after-before, 300_000+packSize, "more was sent than what changed")
	m.requireSound(src)
	m.requireListed(first, same, changed)
	require.Empty(m.T, leftovers(m.T, m.server.Folder))
}

func TestEngine(t *testing.T) {
	t.Parallel()
	for name, tree := range map[string]func(t *testing.T, src string){
		"random": func(t *testing.T, src string) { testkit.Write(t, src, testkit.Random(5, 400, true)) },
		"hostile": func(t *testing.T, src string) {
			testkit.Hostile(t, src, testkit.HostileOptions{Entries: 500, Depth: 40, SparseSize: 1 << 30})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := smbtest.Start(t, smbtest.Config{Folder: testkit.RamDir(t)})
			src := filepath.Join(testkit.RamDir(t), "src")
			tree(t, src)
			written(t, src, 1, map[string]int{"large": 3 << 20})
			kit.Settle()
			m := newMachine(t, s, at(s), smb.Options{})
			m.list(src)
		})
	}
}

// TestTwoMachines: two computers back up into one share at once, each with its own cache and its own sessions. Half of
// what they have is the same.
func TestTwoMachines(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{Folder: testkit.RamDir(t)})
	one := newMachine(t, s, at(s), smb.Options{})
	two := one.another("two", smb.Options{Parallel: smb.Parallel{Sessions: 2}})
	equal := map[string]int{"same/a": 2 << 20, "same/b": 700_000}
	var sources []string
	for i := range 2 {
		src := filepath.Join(testkit.RamDir(t), "src")
		written(t, src, 9, equal)
		testkit.Write(t, filepath.Join(src, "tree"), testkit.Random(uint64(20+i), 200, true))
		written(t, src, uint64(40+i), map[string]int{"own/x": 2 << 20, "own/y": 300})
		sources = append(sources, src)
	}
	kit.Settle()
	rounds := 3
	for round := range rounds {
		var both sync.WaitGroup
		results := make([]error, 2)
		for i, m := range []*machine{one, two} {
			job := m.job(sources[i])
			both.Go(func() { _, _, results[i] = m.BackupCtx(t.Context(), job) })
		}
		both.Wait()
		require.NoError(t, results[0])
		require.NoError(t, results[1])
		for i := range sources { // one thing that only it has, and one that both get
			written(t, sources[i], uint64(1000*i+round), map[string]int{"own/x": 1<<20 + round})
			written(t, sources[i], uint64(round), map[string]int{"same/later": 900_000 + round})
		}
		kit.Settle()
	}
	for i, m := range []*machine{one, two} {
		m.requireBackup(m.job(sources[i]))
		m.requireSound(sources[i])
	}
	snapshots := 0
	for _, err := range one.st.List(t.Context(), store.Snapshot) {
		require.NoError(t, err)
		snapshots++
	}
	require.Equal(t, 2*rounds+2, snapshots)
	for _, err := range one.st.List(t.Context(), store.Lease) {
		require.NoError(t, err)
		require.Fail(t, "a lease is left")
	}
	require.Empty(t, leftovers(t, s.Folder))
	requireSharedOnce(t, one)
}

// requireSharedOnce: the later backup finds the blobs that the earlier one stored. A blob is there twice only when both
// sent it at once, and never more often.
func requireSharedOnce(t *testing.T, m *machine) {
	t.Helper()
	twice := 0
	for id, n := range blobs(t, m.st.keys, m.st.Store) {
		require.LessOrEqual(t, n, 2, "blob %s", id.Short())
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d blobs are there twice", twice)
}
