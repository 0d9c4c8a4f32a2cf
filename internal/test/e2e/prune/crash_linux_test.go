package prune

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// onMark calls then when the packs to be removed are marked.
type onMark struct {
	store.Store
	then func()
}

func (s *onMark) Put(ctx context.Context, name store.Name, data []byte) error {
	err := s.Store.Put(ctx, name, data)
	if err == nil && name.Kind == store.Mark {
		s.then()
	}
	return err
}

// TestCrashWhilePruning kills prunes at random moments, with backups and forgets in between. After every kill all
// snapshots come back, and the prune that follows finishes the work.
func TestCrashWhilePruning(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if kit.Role() != "" {
		dir, held := strings.CutPrefix(kit.Role(), kit.Halfway)
		p := &kit.Pruned{Engine: kit.OpenEngine(t, dir)}
		if held {
			p.Store = &onMark{p.Store, kit.Hold}
		} else {
			fmt.Println(kit.Ready)
		}
		_, err := p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		return
	}
	dir := testkit.RamDir(t)
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	p := &kit.Pruned{Engine: kit.NewEngine(t, st), Src: filepath.Join(dir, "src"), Dir: dir,
		Contents: map[format.ID]string{}, Few: true}
	require.NoError(t, os.MkdirAll(p.Src, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cache"), 0o700))
	p.Open.Cache.Dir = filepath.Join(dir, "cache")
	rng := rand.New(rand.NewPCG(5, 6))
	kept := []format.ID{p.Snapshot(0)}
	kills, between := 0, 0
	deadline := time.Now().Add(*kit.Soak)
	for i := 1; i <= testkit.Rounds(4, 8, 12) || time.Now().Before(deadline); i++ {
		kept = append(kept, p.Snapshot(uint64(i)))
		if len(kept) > 3 {
			gone := rng.IntN(len(kept))
			p.Forget(kept[gone])
			kept = append(kept[:gone], kept[gone+1:]...)
		}
		if i%4 == 0 {
			p.Forget(kept[:len(kept)-1]...) // enough that there is something to do
			kept = kept[len(kept)-1:]
			require.True(t, kit.Killed(t, kit.Halfway+dir, 0))
			require.NotZero(t, kit.Count(t, st, store.Mark))
			kills++
		} else if kit.Killed(t, dir, time.Duration(rng.Int64N(int64(120*time.Millisecond)))) {
			kills++
		}
		if kit.Count(t, st, store.Mark) > 0 {
			between++
		}
		p.EndLeases()
		p.RequireSound()
		p.RequireRestorable(fmt.Sprintf("after kill %d", i), true)
		if i%3 == 0 {
			_, err := p.Prune(kit.SmallPrune())
			require.NoError(t, err)
			require.Zero(t, kit.Count(t, st, store.Mark))
			p.RequireWhole(fmt.Sprintf("after the prune that followed kill %d", i))
		}
	}
	t.Logf("%d kills, %d of them between mark and removal", kills, between)
	require.NoError(t, context.Cause(t.Context()))
}
