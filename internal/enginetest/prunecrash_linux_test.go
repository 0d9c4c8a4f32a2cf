package enginetest

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
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// onMark calls then when it is marked what is about to be removed.
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
	if role() != "" {
		dir, held := strings.CutPrefix(role(), halfway)
		p := &pruned{engine: openEngine(t, dir)}
		if held {
			p.st = &onMark{p.st, hold}
		} else {
			fmt.Println(ready)
		}
		_, err := p.prune(smallPrune())
		require.NoError(t, err)
		return
	}
	dir := ramDir(t)
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	p := &pruned{engine: newEngine(t, st), src: filepath.Join(dir, "src"), dir: dir, as: map[format.ID]string{}, few: true}
	require.NoError(t, os.MkdirAll(p.src, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cache"), 0o700))
	p.open.CacheDir = filepath.Join(dir, "cache")
	rng := rand.New(rand.NewPCG(5, 6))
	kept := []format.ID{p.snapshot(0)}
	kills, between := 0, 0
	deadline := time.Now().Add(*soak)
	for i := 1; i <= 12 || time.Now().Before(deadline); i++ {
		kept = append(kept, p.snapshot(uint64(i)))
		if len(kept) > 3 {
			gone := rng.IntN(len(kept))
			p.forget(kept[gone])
			kept = append(kept[:gone], kept[gone+1:]...)
		}
		if i%4 == 0 {
			p.forget(kept[:len(kept)-1]...) // enough that there is something to do
			kept = kept[len(kept)-1:]
			require.True(t, killed(t, halfway+dir, 0))
			require.NotZero(t, count(t, st, store.Mark))
			kills++
		} else if killed(t, dir, time.Duration(rng.Int64N(int64(120*time.Millisecond)))) {
			kills++
		}
		if count(t, st, store.Mark) > 0 {
			between++
		}
		p.endLeases()
		p.requireSound()
		p.requireRestorable(fmt.Sprintf("after kill %d", i), true)
		if i%3 == 0 {
			_, err := p.prune(smallPrune())
			require.NoError(t, err)
			require.Zero(t, count(t, st, store.Mark))
			p.requireWhole(fmt.Sprintf("after the prune that followed kill %d", i))
		}
	}
	t.Logf("%d kills, %d of them between mark and removal", kills, between)
	require.NoError(t, context.Cause(t.Context()))
}
