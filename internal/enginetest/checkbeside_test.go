package enginetest

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
)

// checkBeside checks, with other work done before its n-th operation on the store, and counts these, and how often it
// looked: each look begins with a list of the snapshots.
func (p *pruned) checkBeside(n int, do func(st store.Store)) (found *check.Result, l *report.Ledger, operations, looks int) {
	p.t.Helper()
	inner := p.st
	var mu sync.Mutex
	armed := false
	p.st = &steps{Store: inner, before: func(op string, name store.Name) {
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
	err := p.with(func(r *repo.Repository) (err error) {
		mu.Lock()
		armed = true
		mu.Unlock()
		found, err = check.Run(context.Background(), r, check.Options{ReadData: true, Scratch: p.t.TempDir()}, l)
		return err
	})
	p.st = inner
	require.NoError(p.t, err)
	return found, l, operations, looks
}

// pruneAlone prunes as another machine.
func (p *pruned) pruneAlone(st store.Store, limit prune.Limit) {
	other := &pruned{engine: &engine{t: p.t, st: st, par: p.par, open: p.open}}
	other.open.CacheDir = p.t.TempDir()
	opt := smallPrune()
	opt.MaxUnused = limit
	// Not with require, which must not end a goroutine of the check.
	res, err := other.prune(opt)
	if err != nil || res.Deleted.Packs == 0 {
		p.t.Errorf("prune: removed %d packs: %v", res.Deleted.Packs, err)
	}
}

// TestCheckWithAPruneBetweenAnyTwoSteps makes a whole prune, which moves packs, before each step of a check that reads all
// data: what was only moved is no damage.
func TestCheckWithAPruneBetweenAnyTwoSteps(t *testing.T) {
	base := newPruned(t, mem.New())
	base.few = true
	base.forget(base.snapshot(1))
	base.snapshot(2)
	_, _, plain, once := base.checkBeside(-1, nil)
	require.Equal(t, 1, once, "nobody disturbs it")
	most, again, stride := 0, 0, 2
	if testing.Short() {
		stride = 7
	}
	for n := 1; ; n += stride {
		p := base.copied(t)
		done := false
		found, l, operations, looks := p.checkBeside(n, func(st store.Store) {
			done = true
			p.pruneAlone(st, prune.Limit{Bytes: 0})
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
			require.Greater(t, n, 20)
			t.Logf("a check takes %d operations, and %d at most beside a prune, for which %d looked again", plain, most, again)
			require.NotZero(t, again, "no check looked again: the test proves nothing")
			return
		}
	}
}

// TestCheckBesideAPruneFindsDamage: that packs were moved hides nothing that is damaged.
func TestCheckBesideAPruneFindsDamage(t *testing.T) {
	base := newPruned(t, mem.New())
	base.few = true
	base.forget(base.snapshot(1))
	base.snapshot(2)
	for _, name := range everyFile(t, base.st) {
		if name.Kind != store.Pack {
			continue
		}
		p := base.copied(t)
		data := load(t, p.st, name)
		data[len(data)/3] ^= 1
		require.NoError(t, p.st.Delete(context.Background(), name))
		require.NoError(t, p.st.Put(context.Background(), name, data))
		before, _, steps, _ := p.checkBeside(-1, nil)
		require.NotEmpty(t, before.Problems)
		opt := smallPrune()
		opt.MaxUnused = prune.Limit{None: true}
		for _, n := range []int{1, steps / 2, steps - 5} {
			beside := p.copied(t)
			var failed error
			found, _, _, _ := beside.checkBeside(n, func(st store.Store) {
				other := &pruned{engine: &engine{t: t, st: st, par: p.par, open: p.open}}
				other.open.CacheDir = t.TempDir()
				_, failed = other.prune(opt)
			})
			if _, err := beside.st.Stat(context.Background(), name); err != nil {
				continue // nothing needed it
			}
			require.NotEmpty(t, found.Problems, "pack %s, prune before step %d: %v", name.ID, n, failed)
		}
	}
}
