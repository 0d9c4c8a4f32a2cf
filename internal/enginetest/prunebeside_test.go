package enginetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/faultstore"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
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

// besideBase is a repository of which the data of a snapshot that was forgotten is about to be pruned, while the source has
// that very data again: a backup now finds it in the index.
func besideBase(t *testing.T) *pruned {
	t.Helper()
	p := newPruned(t, mem.New())
	p.few = true
	keep := p.snapshot(1)
	second := p.snapshot(2)
	p.forget(second)
	require.Contains(t, p.as, keep)
	return p // the source is as in the snapshot that was forgotten
}

// TestBackupBetweenAnyTwoStepsOfPrune makes a whole backup before each step of a prune.
func TestBackupBetweenAnyTwoStepsOfPrune(t *testing.T) {
	base := besideBase(t)
	for n := 1; ; n++ {
		p := base.copied(t)
		inner := p.st
		st, count := at(inner, n, func() {
			other := &engine{t: t, st: inner, par: p.par, open: p.open}
			other.open.CacheDir = t.TempDir()
			out, _, err := other.backup(p.smallJob())
			require.NoError(t, err)
			p.keep(out.ID)
		})
		p.st = st
		_, err := p.prune(smallPrune())
		require.NoError(t, err)
		p.st = inner
		p.requireRestorable(fmt.Sprintf("backup before step %d of %d", n, *count), true)
		_, err = p.prune(smallPrune())
		require.NoError(t, err)
		require.Zero(t, countMarks(t, inner))
		p.requireWhole(fmt.Sprintf("the prune after the backup before step %d", n))
		if n > *count {
			require.Greater(t, n, 15)
			return
		}
	}
}

func countMarks(t *testing.T, st store.Store) int { return count(t, st, store.Mark) }

// TestPruneBetweenAnyTwoStepsOfBackup makes whole prunes, and forgets what the backup compares with, before each step of
// a backup that relies on data which no snapshot needs. The cache of the backup vouches for folders of snapshots that are
// forgotten meanwhile.
func TestPruneBetweenAnyTwoStepsOfBackup(t *testing.T) {
	base := besideBase(t)
	for n := 1; ; n++ {
		p := base.copied(t)
		inner := p.st
		// What is forgotten meanwhile is the parent.
		first, _, err := p.backup(p.smallJob())
		require.NoError(t, err)
		p.keep(first.ID)
		st, count := at(inner, n, func() {
			(&pruned{engine: &engine{t: t, st: inner}, as: p.as}).forget(first.ID)
			for range 2 {
				other := &engine{t: t, st: inner, par: p.par, open: p.open}
				other.open.CacheDir = t.TempDir()
				// Not with require, which must not end a goroutine of the backup.
				if _, err := (&pruned{engine: other}).prune(smallPrune()); err != nil {
					t.Errorf("prune before step %d: %v", n, err)
				}
			}
		})
		p.st = st
		out, _, err := p.backup(p.smallJob())
		p.st = inner
		require.NoError(t, err, "prune before step %d", n)
		require.False(t, t.Failed())
		p.keep(out.ID)
		if n > *count {
			require.Greater(t, n, 8)
			return
		}
		p.requireRestorable(fmt.Sprintf("prune before step %d of %d", n, *count), true)
		_, err = p.prune(smallPrune())
		require.NoError(t, err)
		require.Zero(t, countMarks(t, inner))
		p.requireWhole(fmt.Sprintf("prune after the prune before step %d", n))
	}
}

// TestExpiredWriterPublishesNothingThatIsGone stops a backup before each of its steps for so long that its lease ends, and
// prunes meanwhile what it relies on: it fails, or its snapshot is whole.
func TestExpiredWriterPublishesNothingThatIsGone(t *testing.T) {
	base := besideBase(t)
	failed := 0
	for n := 1; ; n++ {
		p := base.copied(t)
		inner := p.st
		job := p.smallJob()
		job.Session.Tuning.Expiry, job.Session.Tuning.Heartbeat = 20*time.Millisecond, time.Hour
		job.Session.Uploads = 1
		st, count := at(inner, n, func() {
			settle() // 60 ms: the lease is over, for everybody
			opt := smallPrune()
			opt.Session.Tuning.Expiry, opt.Session.Tuning.Heartbeat = 20*time.Millisecond, time.Hour
			for range 3 {
				other := &engine{t: t, st: inner, par: p.par, open: p.open}
				other.open.CacheDir = t.TempDir()
				// The prune itself may be slower than its lease.
				if _, err := (&pruned{engine: other}).prune(opt); err != nil && !errors.Is(err, session.ErrLeaseLost) {
					t.Errorf("prune before step %d: %v", n, err)
				}
			}
		})
		p.st = st
		out, _, err := p.backup(job)
		p.st = inner
		p.endLeases()
		if err == nil {
			p.keep(out.ID)
		} else {
			require.True(t, errors.Is(err, session.ErrLeaseLost) || errors.Is(err, store.ErrNotExist) || errors.Is(err, session.ErrReplaced), "%v", err)
			failed++
		}
		p.requireWhole(fmt.Sprintf("stopped before step %d of %d", n, *count))
		if n > *count {
			require.Greater(t, n, 8)
			require.NotZero(t, failed, "no stop did any harm: the test proves nothing")
			return
		}
	}
}

// TestOnePruneAtATime: the second one is refused, and nothing happens to the first.
func TestOnePruneAtATime(t *testing.T) {
	p := besideBase(t)
	require.NoError(t, p.with(func(r *repo.Repository) error {
		return r.WithSession(context.Background(), repo.SessionOptions{Holder: repo.Holder{Task: "prune", Host: "other"}}, func(context.Context, *repo.Session) error {
			_, err := p.prune(smallPrune())
			require.ErrorIs(t, err, prune.ErrBusy)
			require.ErrorContains(t, err, "other")
			return nil
		})
	}))
	_, err := p.prune(smallPrune())
	require.NoError(t, err)
	p.requireWhole("alone")
}

// TestMarkWaitsForOlderWriters: as long as a writer is at work that began before the mark, nothing is removed; the packs
// that it has come to need are pardoned, and the others removed by the next prune.
func TestMarkWaitsForOlderWriters(t *testing.T) {
	p := besideBase(t)
	inner := p.st
	packs := count(t, inner, store.Pack)
	var waiting bool
	once := sync.Once{}
	st := &steps{Store: inner, before: func(op string, name store.Name) {
		if op != "put" || name.Kind != store.Snapshot {
			return
		}
		once.Do(func() {
			other := &engine{t: t, st: inner, par: p.par, open: p.open}
			other.open.CacheDir = t.TempDir()
			dry := smallPrune()
			dry.DryRun = true
			forecast, err := (&pruned{engine: other}).prune(dry)
			require.NoError(t, err)
			require.Len(t, forecast.Waiting, 1)
			require.NotZero(t, forecast.Condemned.Packs)
			require.Zero(t, forecast.Deleted.Packs)
			require.LessOrEqual(t, forecast.Freed, int64(0))
			res, err := (&pruned{engine: other}).prune(smallPrune())
			require.NoError(t, err)
			require.Len(t, res.Waiting, 1)
			require.LessOrEqual(t, res.Freed, int64(0), "what was written anew, and nothing removed yet")
			require.NotZero(t, res.Condemned.Packs)
			require.Zero(t, res.Deleted.Packs)
			waiting = true
		})
	}}
	p.st = st
	out, _, err := p.backup(p.smallJob())
	p.st = inner
	require.NoError(t, err)
	require.True(t, waiting)
	p.keep(out.ID)
	require.GreaterOrEqual(t, count(t, inner, store.Pack), packs)
	require.Equal(t, 1, countMarks(t, inner))
	p.requireWhole("with a mark")
	// A writer that sees the mark does not compare with a snapshot of which it is not certain, and its own it trusts.
	for i := range 2 {
		next, _, err := p.backup(p.smallJob())
		require.NoError(t, err)
		p.keep(next.ID)
		require.NotEqual(t, out.ID, next.Parent)
		require.Len(t, next.Snapshot.Heeds, 1)
		if i == 1 {
			require.False(t, next.Parent.IsZero())
		}
	}
	p.requireWhole("with snapshots that heed the mark")
	res, err := p.prune(smallPrune())
	require.NoError(t, err)
	require.NotZero(t, res.Pardoned)
	require.Zero(t, countMarks(t, inner))
	p.requireWhole("after the second prune")
}

// TestForgottenBeforeTheLease: a backup lists snapshots, and before it puts its lease the one it would compare with is
// forgotten and pruned, and the cache still vouches for its folders.
func TestForgottenBeforeTheLease(t *testing.T) {
	p := newPruned(t, mem.New())
	only := p.snapshot(1)
	inner := p.st
	once := sync.Once{}
	p.st = &steps{Store: inner, before: func(op string, name store.Name) {
		if op != "put" || name.Kind != store.Lease {
			return
		}
		once.Do(func() {
			p.forget(only)
			other := &engine{t: t, st: inner, par: p.par, open: p.open}
			other.open.CacheDir = t.TempDir()
			_, err := (&pruned{engine: other}).prune(smallPrune())
			require.NoError(t, err)
			require.Zero(t, count(t, inner, store.Pack))
		})
	}}
	var out *backup.Outcome
	l := report.New(time.Now)
	err := p.with(func(r *repo.Repository) (err error) {
		out, err = backup.Make(context.Background(), r, p.smallJob(), l)
		return err
	})
	p.st = inner
	require.NoError(t, err)
	require.True(t, out.Parent.IsZero())
	p.keep(out.ID)
	p.requireWhole("a backup whose parent was pruned before its lease")
}

// TestKilledPruneBlocksNobodyHere: a prune of this machine that was killed left its lease; the next one goes on at once, and
// takes the lease away. On another machine, or under another name, it counts as at work, and so does one that goes on.
func TestKilledPruneBlocksNobodyHere(t *testing.T) {
	base := besideBase(t)
	cut := func(t *testing.T) (*pruned, prune.Options) {
		for at := 1; ; at++ { // until it is cut off just after it has put its lease
			p := base.copied(t)
			opt := smallPrune()
			opt.Scratch, opt.Session.Host = t.TempDir(), "here"
			inner := p.st
			p.st = faultstore.Wrap(inner, faultstore.Plan{At: at, Effect: faultstore.Refuse, Sticky: true})
			_, err := p.prune(opt)
			p.st = inner
			require.Error(t, err)
			if count(t, p.st, store.Lease) > 0 { // which stays, as of a prune that was killed
				info, err := os.Stat(filepath.Join(opt.Scratch, "prune.lock"))
				require.NoError(t, err)
				require.NotZero(t, info.Size())
				return p, opt
			}
		}
	}
	t.Run("here", func(t *testing.T) {
		p, opt := cut(t)
		dry := opt
		dry.DryRun = true
		forecast, err := p.prune(dry)
		require.NoError(t, err)
		require.Empty(t, forecast.Waiting)
		res, err := p.prune(opt)
		require.NoError(t, err)
		require.NotZero(t, res.Deleted.Packs)
		require.Equal(t, forecast.Deleted, res.Deleted)
		require.Zero(t, count(t, p.st, store.Lease))
		p.requireWhole("after the second prune")
	})
	t.Run("on another machine", func(t *testing.T) {
		p, opt := cut(t)
		opt.Scratch = t.TempDir()
		_, err := p.prune(opt)
		require.ErrorIs(t, err, prune.ErrBusy)
	})
	t.Run("under another name", func(t *testing.T) {
		p, opt := cut(t)
		opt.Session.Host = "elsewhere"
		_, err := p.prune(opt)
		require.ErrorIs(t, err, prune.ErrBusy)
	})
	t.Run("goes on", func(t *testing.T) {
		p := base.copied(t)
		opt := smallPrune()
		opt.Scratch, opt.Session.Host = t.TempDir(), "here"
		inner, asked := p.st, false
		p.st = &steps{Store: inner, before: func(op string, name store.Name) {
			if op != "list" || name.Kind != store.Snapshot || asked {
				return
			}
			asked = true
			other := &pruned{engine: &engine{t: t, st: inner, par: p.par, open: p.open}}
			other.open.CacheDir = t.TempDir()
			_, err := other.prune(opt)
			require.ErrorIs(t, err, prune.ErrBusy)
		}}
		_, err := p.prune(opt)
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

// TestLeaseOfTheFutureEnds: what a writer that was killed has left when the clock of the target was wrong keeps prunes from
// removing anything as long as any other lease, and not until the time comes that it is of.
func TestLeaseOfTheFutureEnds(t *testing.T) {
	for _, task := range []string{"", session.PruneTask} {
		p := besideBase(t)
		var left store.Name
		var data []byte
		writer := repo.SessionOptions{Holder: repo.Holder{Task: task}}
		require.NoError(t, p.with(func(r *repo.Repository) error {
			return r.WithSession(context.Background(), writer, func(ctx context.Context, _ *repo.Session) error {
				for info, err := range p.st.List(ctx, store.Lease) {
					require.NoError(t, err)
					left, data = info.Name, load(t, p.st, info.Name)
				}
				return nil
			})
		}))
		require.NoError(t, p.st.Put(t.Context(), left, data))
		p.st = &ahead{Store: p.st, name: left}
		res, err := p.prune(smallPrune())
		if task == "" {
			require.NoError(t, err)
			require.Len(t, res.Waiting, 1)
		} else {
			require.ErrorIs(t, err, prune.ErrBusy)
		}
		require.Zero(t, res.Deleted.Packs)
		settle() // longer than a lease lasts now
		opt := smallPrune()
		opt.Session.Tuning.Expiry = 20 * time.Millisecond
		for range 5 { // which may be too short for the prune itself
			if res, err = p.prune(opt); !errors.Is(err, session.ErrLeaseLost) {
				break
			}
		}
		require.NoError(t, err)
		require.Empty(t, res.Waiting)
		require.Zero(t, countMarks(t, p.st))
		p.requireWhole("a lease of the future has ended")
	}
}
