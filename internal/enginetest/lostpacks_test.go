package enginetest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// readings counts how often each pack is read.
type readings struct {
	store.Store
	mu    sync.Mutex
	count map[store.Name]int
}

func (r *readings) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	r.mu.Lock()
	r.count[name]++
	r.mu.Unlock()
	return r.Store.Get(ctx, name, off, p)
}

func packsIn(t *testing.T, st store.Store) map[store.Name][]byte {
	t.Helper()
	packs := map[store.Name][]byte{}
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		p := make([]byte, info.Size)
		require.NoError(t, st.Get(t.Context(), info.Name, 0, p))
		packs[info.Name] = p
	}
	return packs
}

func removePacks(t *testing.T, st store.Store, packs map[store.Name][]byte) {
	t.Helper()
	for name := range packs {
		require.NoError(t, st.Delete(t.Context(), name))
	}
}

// TestOlderPacksComeBack: the packs of a repository are away for a while, a backup meanwhile stores everything anew, and then
// its packs are lost and the older ones are there again. What a check calls sound can be restored, without asking for the
// lost packs over and over, and backed up upon.
func TestOlderPacksComeBack(t *testing.T) {
	dir := ramDir(t)
	src := filepath.Join(dir, "src")
	withCopies(t, src)
	settle()
	e := newEngine(t, mem.New())
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	old := packsIn(t, e.st)
	removePacks(t, e.st, old)
	job := e.job(src)
	job.Source.Comparing.Force = true
	out, _, err := e.backup(job)
	require.NoError(t, err)
	// What lies above src may have changed, which only this snapshot and its packs hold.
	require.NoError(t, e.st.Delete(t.Context(), store.Name{Kind: store.Snapshot, ID: out.ID.String()}))
	lost := packsIn(t, e.st)
	removePacks(t, e.st, lost)
	for name, data := range old {
		require.NoError(t, e.st.Put(t.Context(), name, data))
	}

	known := e.open
	for name, open := range map[string]repo.OpenOptions{
		"with the cache": known, "with a new cache": openOptions(ramDir(t)), "without": {Unlock: known.Unlock, NoCache: true},
	} {
		counted := &readings{Store: e.st, count: map[store.Name]int{}}
		c := *e
		c.open, c.st = open, counted
		dst := filepath.Join(dir, "dst")
		_, err := c.alone(src, target(filepath.Join(dst, name)))
		require.NoError(t, err, name)
		require.Empty(t, c.failures(), name)
		require.Empty(t, testkit.Compare(context.Background(), src, filepath.Join(dst, name), testkit.CompareOptions{}), name)
		for id := range lost {
			require.LessOrEqual(t, counted.count[id], 2, "%s: %s", name, id)
		}
	}
	e.requireSound()
	e.requireEverySnapshotReadable(src)

	p := &pruned{engine: &engine{t: t, st: copyOf(t, e.st), par: e.par, open: openOptions(ramDir(t))}}
	_, err = p.prune(prune.Options{})
	require.NoError(t, err)
	p.requireSound()
	p.requireEverySnapshotReadable(src)

	_, _, err = e.backup(e.job(src))
	require.NoError(t, err)
	e.requireSound()
	e.requireRestored(src)
}
