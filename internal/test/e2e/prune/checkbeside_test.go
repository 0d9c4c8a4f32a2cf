package prune

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// checkBeside checks, with other work done before its n-th operation on the store, and counts these, and how often it
// looked: each look begins with a list of the snapshots.
func checkBeside(p *kit.Pruned, n int, do func(st store.Store)) (found *check.Result, l *report.Ledger, operations,
	looks int) {
	p.T.Helper()
	inner := p.Store
	var mu sync.Mutex
	armed := false
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		mu.Lock()
		defer mu.Unlock()
		if !armed {
			return
		}
		if op == "list" && name.Kind == store.Snapshot {
			looks++
		}
		if operations++; operations == n {
			do(inner)
		}
	}}
	l = report.NewJob(report.Check, time.Now)
	err := p.With(func(r *repo.Repository) (err error) {
		mu.Lock()
		armed = true
		mu.Unlock()
		found, err = check.Run(context.Background(), r, check.Options{ReadData: true, Scratch: p.T.TempDir()}, l)
		return err
	})
	p.Store = inner
	require.NoError(p.T, err)
	return found, l, operations, looks
}

// pruneAlone prunes as another machine.
func pruneAlone(p *kit.Pruned, st store.Store, limit prune.Limit) {
	other := p.Elsewhere(st)
	opt := kit.SmallPrune()
	opt.MaxUnused = limit
	// Not with require, which must not end a goroutine of the check.
	res, err := other.Prune(opt)
	if err != nil || res.Deleted.Packs == 0 {
		p.T.Errorf("prune: removed %d packs: %v", res.Deleted.Packs, err)
	}
}

// TestCheckWithAPruneBetweenAnyTwoSteps makes a whole prune, which moves packs, before each step of a check that reads
// all data: a moved pack is no damage.
func TestCheckWithAPruneBetweenAnyTwoSteps(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Forget(base.Snapshot(1))
	base.Snapshot(2)
	_, _, plain, once := checkBeside(base, -1, nil)
	require.Equal(t, 1, once, "nothing disturbs it")
	most, again, stride := 0, 0, testkit.Rounds(7, 5, 2)
	for n := 1; ; n += stride {
		p := base.Copied(t)
		done := false
		found, l, operations, looks := checkBeside(p, n, func(st store.Store) {
			done = true
			pruneAlone(p, st, prune.Limit{Bytes: 0})
		})
		require.False(t, t.Failed())
		require.Empty(t, found.Problems, fmt.Sprintf("prune before step %d of %d", n, operations))
		totals := l.Snapshot()
		require.Zero(t, totals.Objects.Damaged)
		require.LessOrEqual(t, totals.Objects.Verified, totals.Expected.Objects)
		most = max(most, operations)
		require.LessOrEqual(t, looks, 2, "there was one prune only")
		if looks == 2 {
			again++
		}
		if !done {
			require.GreaterOrEqual(t, plain, 20)
			t.Logf("a check takes %d operations, and %d at most beside a prune, for which %d looked again", plain, most, again)
			require.NotZero(t, again, "no check looked again: the test proves nothing")
			return
		}
	}
}

// TestCheckBesideAPruneFindsDamage: that packs were moved hides nothing that is damaged.
func TestCheckBesideAPruneFindsDamage(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Forget(base.Snapshot(1))
	base.Snapshot(2)
	for _, name := range kit.EveryFile(t, base.Store) {
		if name.Kind != store.Pack {
			continue
		}
		p := base.Copied(t)
		data := kit.Load(t, p.Store, name)
		data[len(data)/3] ^= 1
		require.NoError(t, p.Store.Delete(context.Background(), name))
		require.NoError(t, p.Store.Put(context.Background(), name, data))
		before, _, steps, _ := checkBeside(p, -1, nil)
		require.NotEmpty(t, before.Problems)
		opt := kit.SmallPrune()
		opt.MaxUnused = prune.Limit{None: true}
		for _, n := range []int{1, steps / 2, steps - 5} {
			beside := p.Copied(t)
			var failed error
			found, _, _, _ := checkBeside(beside, n, func(st store.Store) {
				_, failed = p.Elsewhere(st).Prune(opt)
			})
			if _, err := beside.Store.Stat(context.Background(), name); err != nil {
				continue // nothing needed it
			}
			require.NotEmpty(t, found.Problems, "pack %s, prune before step %d: %v", name.ID, n, failed)
		}
	}
}
