package prune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
)

// steps is a store that calls before each operation.
type steps struct {
	store.Store
	before func(op string, name store.Name)
}

func (s *steps) Put(ctx context.Context, name store.Name, data []byte) error {
	s.before("put", name)
	return s.Store.Put(ctx, name, data)
}

func (s *steps) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	s.before("put", name)
	return s.Store.PutNew(ctx, name, data)
}

func (s *steps) Fence(ctx context.Context, name store.Name) error {
	s.before("fence", name)
	return s.Store.Fence(ctx, name)
}

func (s *steps) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	s.before("get", name)
	return s.Store.Get(ctx, name, off, p)
}

func (s *steps) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	s.before("stat", name)
	return s.Store.Stat(ctx, name)
}

func (s *steps) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	s.before("list", store.Name{Kind: kind})
	return s.Store.List(ctx, kind)
}

func (s *steps) Delete(ctx context.Context, name store.Name) error {
	s.before("delete", name)
	return s.Store.Delete(ctx, name)
}

// at calls do once, before the n-th operation that changes something or lists, and counts these operations.
func at(inner store.Store, n int, do func()) (st *steps, count *int) {
	count = new(int)
	var mu sync.Mutex
	st = &steps{Store: inner}
	st.before = func(op string, name store.Name) {
		if op == "get" || op == "stat" || name.Kind == store.Lease && op != "list" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if *count++; *count == n {
			do()
		}
	}
	return st, count
}

// TestBackupBetweenAnyTwoStepsOfPrune makes a whole backup before each step of a prune.
func TestBackupBetweenAnyTwoStepsOfPrune(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.BesideBase(t)
	for n := 1; ; n += testkit.Rounds(5, 3, 1) {
		p := base.Copied(t)
		inner := p.Store
		st, count := at(inner, n, func() {
			out, _, err := p.Elsewhere(inner).Backup(p.SmallJob())
			require.NoError(t, err)
			p.Keep(out.ID)
		})
		p.Store = st
		_, err := p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		p.Store = inner
		p.RequireRestorable(fmt.Sprintf("backup before step %d of %d", n, *count), true)
		_, err = p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		require.Zero(t, countMarks(t, inner))
		p.RequireWhole(fmt.Sprintf("the prune after the backup before step %d", n))
		if n > *count {
			require.GreaterOrEqual(t, *count, 15)
			return
		}
	}
}

func countMarks(t *testing.T, st store.Store) int { return kit.Count(t, st, store.Mark) }

// TestPruneBetweenAnyTwoStepsOfBackup makes whole prunes, and forgets what the backup compares with, before each step
// of a backup that relies on data which no snapshot needs. The cache of the backup vouches for folders of snapshots
// that are forgotten meanwhile.
func TestPruneBetweenAnyTwoStepsOfBackup(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.BesideBase(t)
	for n := 1; ; n += testkit.Rounds(5, 3, 1) {
		p := base.Copied(t)
		inner := p.Store
		// What is forgotten meanwhile is the parent.
		first, _, err := p.Backup(p.SmallJob())
		require.NoError(t, err)
		p.Keep(first.ID)
		st, count := at(inner, n, func() {
			p.Elsewhere(inner).Forget(first.ID)
			p.PruneTwice(inner, fmt.Sprintf("before step %d", n))
		})
		p.Store = st
		out, _, err := p.Backup(p.SmallJob())
		p.Store = inner
		require.NoError(t, err, "prune before step %d", n)
		require.False(t, t.Failed())
		p.Keep(out.ID)
		if n > *count {
			require.GreaterOrEqual(t, *count, 8)
			return
		}
		p.RequireRestorable(fmt.Sprintf("prune before step %d of %d", n, *count), true)
		_, err = p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		require.Zero(t, countMarks(t, inner))
		p.RequireWhole(fmt.Sprintf("prune after the prune before step %d", n))
	}
}

// TestExpiredWriterPublishesNothingThatIsGone stops a backup before each of its steps until its lease expires, and
// meanwhile prunes the packs that it relies on: it fails, or its snapshot is whole.
func TestExpiredWriterPublishesNothingThatIsGone(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.BesideBase(t)
	failed := 0
	for n := 1; ; n += testkit.Rounds(3, 2, 1) {
		p := base.Copied(t)
		inner := newStepped(p.Store)
		job := p.SmallJob()
		job.Session.Uploads = 1
		st, count := at(inner, n, func() {
			inner.step(2 * session.LeaseExpiry)
			p.PruneTwice(inner, fmt.Sprintf("before step %d", n))
		})
		p.Store = st
		out, _, err := p.Backup(job)
		p.Store = inner.Store
		p.EndLeases()
		if err == nil {
			p.Keep(out.ID)
		} else {
			require.True(t, errors.Is(err, session.ErrLeaseLost) || errors.Is(err, store.ErrNotExist) ||
				errors.Is(err, session.ErrReplaced), "%v", err)
			failed++
		}
		p.RequireWhole(fmt.Sprintf("stopped before step %d of %d", n, *count))
		if n > *count {
			require.GreaterOrEqual(t, *count, 8)
			require.NotZero(t, failed, "no stop did any harm: the test proves nothing")
			return
		}
	}
}

// TestOnePruneAtATime: the second one is refused, and nothing happens to the first.
func TestOnePruneAtATime(t *testing.T) {
	t.Parallel()
	p := kit.BesideBase(t)
	other := func(e kit.Engine, fn func()) error {
		return e.With(func(r *repo.Repository) error {
			return r.WithSession(context.Background(), repo.SessionOptions{Holder: session.Holder{Task: "prune", Host: "other"}},
				func(context.Context, *repo.Session) error {
					fn()
					return nil
				})
		})
	}
	torn := store.Name{Kind: store.Mark, ID: strings.Repeat("5a", 32)}
	require.NoError(t, p.Store.Put(t.Context(), torn, []byte("torn")))
	require.NoError(t, other(*p.Engine, func() {
		_, err := p.Prune(kit.SmallPrune())
		require.ErrorIs(t, err, prune.ErrBusy)
		require.ErrorContains(t, err, "other")
		_, err = p.Store.Stat(t.Context(), torn)
		require.NoError(t, err, "the other prune may be acting on it")
	}))

	inner := p.Store
	begun, ended := make(chan struct{}), make(chan struct{})
	var late sync.WaitGroup
	var once sync.Once
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		if op == "put" && name.Kind == store.Mark { // a second one announces itself now, and does not go soon
			once.Do(func() {
				second := *p.Engine
				second.Store = inner
				late.Go(func() { assert.NoError(t, other(second, func() { close(begun); <-ended })) })
				<-begun
			})
		}
	}}
	_, err := p.Prune(kit.SmallPrune())
	close(ended)
	late.Wait()
	require.NoError(t, err)
	p.Store = inner
	p.RequireWhole("alone")
}

// TestMarkWaitsForOlderWriters: prune removes nothing while a writer is at work that began before the mark. The packs
// that this writer has come to need are revived, and the next prune removes the others.
func TestMarkWaitsForOlderWriters(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.BesideBase(t)
	inner := p.Store
	packs := kit.Count(t, inner, store.Pack)
	var waiting bool
	once := sync.Once{}
	st := &steps{Store: inner, before: func(op string, name store.Name) {
		if op != "put" || name.Kind != store.Snapshot {
			return
		}
		once.Do(func() {
			other := p.Elsewhere(inner)
			dry := kit.SmallPrune()
			dry.DryRun = true
			forecast, err := other.Prune(dry)
			require.NoError(t, err)
			require.Len(t, forecast.Waiting, 1)
			require.NotZero(t, forecast.Marked.Packs)
			require.Zero(t, forecast.Deleted.Packs)
			require.LessOrEqual(t, forecast.Freed, int64(0))
			res, err := other.Prune(kit.SmallPrune())
			require.NoError(t, err)
			require.Len(t, res.Waiting, 1)
			require.LessOrEqual(t, res.Freed, int64(0), "packs were repacked, and nothing removed yet")
			require.NotZero(t, res.Marked.Packs)
			require.Zero(t, res.Deleted.Packs)
			waiting = true
		})
	}}
	p.Store = st
	out, _, err := p.Backup(p.SmallJob())
	p.Store = inner
	require.NoError(t, err)
	require.True(t, waiting)
	p.Keep(out.ID)
	require.GreaterOrEqual(t, kit.Count(t, inner, store.Pack), packs)
	require.Equal(t, 1, countMarks(t, inner))
	p.RequireWhole("with a mark")
	// A writer that sees the mark trusts its own snapshot and compares with no uncertain one.
	for i := range 2 {
		next, _, err := p.Backup(p.SmallJob())
		require.NoError(t, err)
		p.Keep(next.ID)
		require.NotEqual(t, out.ID, next.Snapshot.Parent)
		require.Len(t, next.Snapshot.Acknowledged, 1)
		if i == 1 {
			require.False(t, next.Snapshot.Parent.IsZero())
		}
	}
	p.RequireWhole("with snapshots that acknowledge the mark")
	res, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.NotZero(t, res.Revived)
	require.Zero(t, countMarks(t, inner))
	p.RequireWhole("after the second prune")
}

// TestForgottenBeforeTheLease: a backup lists snapshots, and before it puts its lease the one it would compare with is
// forgotten and pruned, and the cache still vouches for its folders.
func TestForgottenBeforeTheLease(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	only := p.Snapshot(1)
	inner := p.Store
	once := sync.Once{}
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		if op != "put" || name.Kind != store.Lease {
			return
		}
		once.Do(func() {
			p.Forget(only)
			_, err := p.Elsewhere(inner).Prune(kit.SmallPrune())
			require.NoError(t, err)
			require.Zero(t, kit.Count(t, inner, store.Pack))
		})
	}}
	var out *backup.Outcome
	l := report.New(time.Now)
	err := p.With(func(r *repo.Repository) (err error) {
		out, err = backup.Run(context.Background(), r, p.SmallJob(), l)
		return err
	})
	p.Store = inner
	require.NoError(t, err)
	require.True(t, out.Snapshot.Parent.IsZero())
	p.Keep(out.ID)
	p.RequireWhole("a backup whose parent was pruned before its lease")
}

// TestKilledPruneDoesNotBlockThisMachine: a prune of this machine that was cut off left its lease. The next prune
// continues at once and removes the lease. A lease of another machine counts as active, and so does that of a prune
// that continues.
func TestKilledPruneDoesNotBlockThisMachine(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.BesideBase(t)
	cut := func(t *testing.T) (*kit.Pruned, prune.Options) {
		for at := 1; ; at++ { // until it is cut off just after it has put its lease
			p := base.Copied(t)
			opt := kit.SmallPrune()
			inner := p.Store
			p.Store = faultstore.Wrap(inner, faultstore.Plan{At: at, Effect: faultstore.Refuse, Sticky: true})
			_, err := p.Prune(opt)
			p.Store = inner
			require.Error(t, err)
			if kit.Count(t, p.Store, store.Lease) > 0 { // which stays, as of a prune that was killed
				return p, opt
			}
		}
	}
	t.Run("here", func(t *testing.T) {
		p, opt := cut(t)
		dry := opt
		dry.DryRun = true
		forecast, err := p.Prune(dry)
		require.NoError(t, err)
		require.Empty(t, forecast.Waiting)
		res, err := p.Prune(opt)
		require.NoError(t, err)
		require.NotZero(t, res.Deleted.Packs)
		require.Equal(t, forecast.Deleted, res.Deleted)
		require.Zero(t, kit.Count(t, p.Store, store.Lease))
		p.RequireWhole("after the second prune")
	})
	t.Run("on another machine", func(t *testing.T) {
		p, opt := cut(t)
		p.Open.Cache.Dir = t.TempDir()
		_, err := p.Prune(opt)
		require.ErrorIs(t, err, prune.ErrBusy)
	})
	t.Run("goes on", func(t *testing.T) {
		p := base.Copied(t)
		opt := kit.SmallPrune()
		inner, asked := p.Store, false
		p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
			if op != "list" || name.Kind != store.Snapshot || asked {
				return
			}
			asked = true
			other := &kit.Pruned{Engine: &kit.Engine{T: t, Store: inner, Parallel: p.Parallel, Open: p.Open}}
			_, err := other.Prune(opt)
			require.ErrorIs(t, err, prune.ErrBusy)
		}}
		_, err := p.Prune(opt)
		require.NoError(t, err)
		require.True(t, asked)
	})
}

// ahead is a store that has dated one file by a clock which was wrong: until it is put again it is of the future.
type ahead struct {
	store.Store
	name  store.Name
	right bool
}

func (a *ahead) Put(ctx context.Context, name store.Name, data []byte) error {
	a.right = a.right || name == a.name
	return a.Store.Put(ctx, name, data)
}

func (a *ahead) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for info, err := range a.Store.List(ctx, kind) {
			if info.Name == a.name && !a.right {
				info.Modified = info.Modified.AddDate(10, 0, 0)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// TestFenceOfTheFutureKeepsNoPruneWaiting: a writer was fenced off while the clock of the target was ahead.
func TestFenceOfTheFutureKeepsNoPruneWaiting(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.BesideBase(t)
	clock := newStepped(p.Store)
	clock.step(2 * session.LeaseExpiry)
	l := lease.Lease{ID: lease.ID{7}, Renewal: 3}
	require.NoError(t, clock.Fence(t.Context(), store.Name{Kind: store.Lease, ID: l.Name()}))
	clock.step(0)
	p.Store = clock
	res, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.Empty(t, res.Waiting)
	require.NotZero(t, res.Deleted.Packs)
	p.RequireWhole("beside a fence of the future")
}

// TestLeaseOfTheFutureEnds: what a writer that was killed has left when the clock of the target was wrong keeps prunes
// from removing anything as long as any other lease, and not until the time comes that it is of.
func TestLeaseOfTheFutureEnds(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, task := range []string{"", session.PruneTask} {
		p := kit.BesideBase(t)
		var left store.Name
		var data []byte
		writer := repo.SessionOptions{Holder: session.Holder{Task: task}}
		require.NoError(t, p.With(func(r *repo.Repository) error {
			return r.WithSession(context.Background(), writer, func(ctx context.Context, _ *repo.Session) error {
				for info, err := range p.Store.List(ctx, store.Lease) {
					require.NoError(t, err)
					left, data = info.Name, kit.Load(t, p.Store, info.Name)
				}
				return nil
			})
		}))
		require.NoError(t, p.Store.Put(t.Context(), left, data))
		clock := newStepped(p.Store)
		p.Store = &ahead{Store: clock, name: left}
		res, err := p.Prune(kit.SmallPrune())
		if task == "" {
			require.NoError(t, err)
			require.Len(t, res.Waiting, 1)
		} else {
			require.ErrorIs(t, err, prune.ErrBusy)
		}
		require.Zero(t, res.Deleted.Packs)
		clock.step(2 * session.LeaseExpiry)
		res, err = p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		require.Empty(t, res.Waiting)
		require.Zero(t, countMarks(t, p.Store))
		p.RequireWhole("a lease of the future has ended")
	}
}
