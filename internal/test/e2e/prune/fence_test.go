package prune

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// stepped is a store on a target with a clock that tests can set.
type stepped struct {
	store.Store
	mu    sync.Mutex
	ahead time.Duration // of the right time
	dated map[store.Name]time.Duration
}

func newStepped(st store.Store) *stepped {
	return &stepped{Store: st, dated: make(map[store.Name]time.Duration)}
}

func (s *stepped) step(to time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = to
}

func (s *stepped) Put(ctx context.Context, name store.Name, data []byte) error {
	err := s.Store.Put(ctx, name, data)
	s.date(name)
	return err
}

func (s *stepped) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	info, err := s.Store.PutNew(ctx, name, data)
	if err != nil {
		return info, err
	}
	s.date(name)
	return s.dating(info), nil
}

func (s *stepped) Fence(ctx context.Context, name store.Name) error {
	if _, err := s.Store.Stat(ctx, name); err == nil { // it keeps its date
		return s.Store.Fence(ctx, name)
	}
	err := s.Store.Fence(ctx, name)
	s.date(name)
	return err
}

// date gives a file that was just stored the time of the clock.
func (s *stepped) date(name store.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dated[name] = s.ahead
}

func (s *stepped) dating(info store.Info) store.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info.Modified = info.Modified.Add(s.dated[info.Name])
	return info
}

func (s *stepped) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	info, err := s.Store.Stat(ctx, name)
	return s.dating(info), err
}

func (s *stepped) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for info, err := range s.Store.List(ctx, kind) {
			if !yield(s.dating(info), err) {
				return
			}
		}
	}
}

// killedAtMark is what a prune sees that is killed when it has removed the packs and is about to remove the mark.
type killedAtMark struct{ store.Store }

var errKilled = errors.New("killed")

func (k killedAtMark) Delete(ctx context.Context, name store.Name) error {
	if name.Kind == store.Mark || name.Kind == store.Lease && k.packless(ctx) {
		return errKilled
	}
	return k.Store.Delete(ctx, name)
}

func (k killedAtMark) packless(ctx context.Context) bool {
	for range k.List(ctx, store.Mark) {
		return true
	}
	return false
}

// TestFenceBeforeClockSteps: a backup stops before one of its steps. The clock of the target steps forward, so that a
// prune takes the backup for dead, and removes packs that it relies on. The prune is killed before it ends, and the
// clock steps back. The backup then publishes no snapshot that lacks data.
func TestFenceBeforeClockSteps(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.BesideBase(t)
	failed := 0
	for n := 1; ; n += testkit.Rounds(3, 2, 1) {
		p := base.Copied(t)
		inner := newStepped(p.Store)
		st, count := at(inner, n, func() {
			inner.step(2 * time.Hour)
			defer inner.step(0)
			if _, err := p.Elsewhere(killedAtMark{inner}).Prune(kit.SmallPrune()); err != nil && !errors.Is(err, errKilled) {
				t.Errorf("prune before step %d: %v", n, err)
			}
		})
		p.Store = st
		out, _, err := p.Backup(p.SmallJob())
		p.Store = inner.Store
		if err == nil {
			p.Keep(out.ID)
		} else {
			require.True(t, errors.Is(err, session.ErrLeaseLost) || errors.Is(err, store.ErrNotExist) ||
				errors.Is(err, session.ErrReplaced), "%v", err)
			failed++
		}
		p.EndLeases()
		p.RequireWhole("")
		if n > *count {
			require.GreaterOrEqual(t, *count, 8)
			require.NotZero(t, failed, "no prune did any harm: the test proves nothing")
			return
		}
	}
}

// TestPruneNamesALateSnapshot: a writer was taken for dead, and then died before it could take its snapshot back. That
// snapshot keeps a prune from removing anything. The prune reports which snapshot it is, and a remedy.
func TestPruneNamesALateSnapshot(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	first, second := p.Snapshot(1), p.Snapshot(2)
	p.Store = &stepped{Store: p.Store, dated: map[store.Name]time.Duration{
		{Kind: store.Snapshot, ID: second.String()}: time.Hour,
	}}
	_, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err, "it is whole")
	for _, pack := range packNames(p) {
		require.NoError(t, p.Store.Delete(t.Context(), pack))
	}
	_, err = p.Prune(kit.SmallPrune())
	require.ErrorIs(t, err, prune.ErrDamaged)
	require.ErrorContains(t, err, "tidemark forget "+second.Short())
	require.NotContains(t, err.Error(), "tidemark forget "+first.Short())
}

func packNames(p *kit.Pruned) (names []store.Name) {
	for info, err := range p.Store.List(p.T.Context(), store.Pack) {
		require.NoError(p.T, err)
		names = append(names, info.Name)
	}
	return names
}
