package roundtrip

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// packReads counts reads by name of the pack.
type packReads struct {
	store.Store
	mu   sync.Mutex
	gets map[string]int
}

func (p *packReads) Get(ctx context.Context, name store.Name, off int64, b []byte) error {
	if name.Kind == store.Pack {
		p.mu.Lock()
		p.gets[name.ID]++
		p.mu.Unlock()
	}
	return p.Store.Get(ctx, name, off, b)
}

// treePacks returns the names of the packs of trees, and forgets the reads up to now.
func (p *packReads) treePacks(t *testing.T) map[string]bool {
	t.Helper()
	trees := make(map[string]bool)
	for info, err := range p.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		if info.Name.OfTrees() {
			trees[info.Name.ID] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gets = make(map[string]int)
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
			st := &packReads{Store: mem.New(), gets: make(map[string]int)}
			e := kit.NewEngine(t, st)
			e.Open.Cache.TreeFrames = limit
			e.Open.Cache.Frames = 1 // nothing from memory
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			for run := range 2 {
				require.NoError(t, os.WriteFile(filepath.Join(src, "changed"), []byte{byte(run)}, 0o600))
				kit.Settle()
				trees := st.treePacks(t)
				require.NotEmpty(t, trees)
				_, _, err = e.Backup(e.Job(src))
				require.NoError(t, err)
				reads := 0
				for id := range trees {
					reads += st.gets[id]
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
