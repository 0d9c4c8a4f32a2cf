package prune

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// blind is a store whose reader gets wrong bytes of every mark; others read them well.
type blind struct{ store.Store }

func (b blind) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	err := b.Store.Get(ctx, name, off, p)
	if err == nil && name.Kind == store.Mark && len(p) > 0 {
		p[0] ^= 1
	}
	return err
}

// blindBackup makes a backup of another machine that cannot read the marks in st.
func blindBackup(p *kit.Pruned, st store.Store) error {
	out, _, err := p.Elsewhere(blind{st}).Backup(p.SmallJob())
	if err == nil {
		p.Keep(out.ID)
	}
	return err
}

// markedBase is BesideBase with a mark that dooms what the next backup needs, and that is not ripe: a writer was at
// work that had not seen it.
func markedBase(t *testing.T) *kit.Pruned {
	t.Helper()
	p := kit.BesideBase(t)
	require.NoError(t, p.With(func(r *repo.Repository) error {
		return r.WithSession(context.Background(), repo.SessionOptions{}, func(context.Context, *repo.Session) error {
			_, err := p.Elsewhere(p.Store).Prune(kit.SmallPrune())
			return err
		})
	}))
	require.Equal(t, 1, countMarks(t, p.Store))
	return p
}

// spoil makes every mark unreadable for all.
func spoil(t *testing.T, st store.Store) {
	t.Helper()
	var names []store.Name
	for info, err := range st.List(context.Background(), store.Mark) {
		require.NoError(t, err)
		names = append(names, info.Name)
	}
	for _, name := range names {
		data := kit.Load(t, st, name)
		require.NoError(t, st.Put(context.Background(), name, data[:len(data)/2]))
	}
}

// TestMarkIsLostWhileItIsNotRipe: what it doomed is revived, as by a prune that removes the mark.
func TestMarkIsLostWhileItIsNotRipe(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := markedBase(t)
	spoil(t, p.Store)
	out, _, err := p.Backup(p.SmallJob())
	require.NoError(t, err)
	p.Keep(out.ID)
	p.RequireRestorable("beside an unreadable mark", true)
	for range 2 {
		_, err = p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		require.Zero(t, countMarks(t, p.Store))
		p.RequireWhole("after a prune")
	}
}

// TestPrunesBesideAWriterThatCannotReadTheirMark makes whole prunes, which can read the mark, before each step of a
// backup that cannot, and that needs what it dooms.
func TestPrunesBesideAWriterThatCannotReadTheirMark(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := markedBase(t)
	for n := 1; ; n += testkit.Rounds(3, 2, 1) {
		p := base.Copied(t)
		inner := p.Store
		st, count := at(inner, n, func() {
			p.PruneTwice(inner, fmt.Sprintf("before step %d", n))
		})
		require.NoError(t, blindBackup(p, st))
		require.False(t, t.Failed())
		p.RequireRestorable(fmt.Sprintf("prunes before step %d of %d", n, *count), true)
		for range 2 {
			_, err := p.Prune(kit.SmallPrune())
			require.NoError(t, err)
		}
		require.Zero(t, countMarks(t, inner))
		p.RequireWhole(fmt.Sprintf("the prunes after those before step %d", n))
		if n > *count {
			require.GreaterOrEqual(t, *count, 8)
			return
		}
	}
}

// TestBlindBackupBetweenAnyTwoStepsOfPrune makes a whole backup that cannot read the mark before each step of a prune
// that acts upon it: the backup refuses, or its snapshot is whole.
func TestBlindBackupBetweenAnyTwoStepsOfPrune(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := markedBase(t)
	refused := 0
	for n := 1; ; n += testkit.Rounds(3, 2, 1) {
		p := base.Copied(t)
		inner := p.Store
		st, count := at(inner, n, func() {
			err := blindBackup(p, inner)
			if errors.Is(err, marks.ErrDamaged) {
				refused++
			} else {
				require.NoError(t, err)
			}
		})
		p.Store = st
		_, err := p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		p.Store = inner
		p.RequireRestorable(fmt.Sprintf("backup before step %d of %d", n, *count), true)
		_, err = p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		p.RequireWhole(fmt.Sprintf("the prune after the backup before step %d", n))
		if n > *count {
			require.NotZero(t, refused, "no backup met a mark beside a prune: the test proves nothing")
			return
		}
	}
}

// TestMarkOfAKilledPruneIsLost kills a prune before each of its steps and spoils the marks that it leaves. When its
// lease has expired, a backup continues beside them, and the next prune removes them.
func TestMarkOfAKilledPruneIsLost(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := markedBase(t)
	spoiled := 0
	for n := 1; ; n += testkit.Rounds(5, 3, 1) {
		p := base.Copied(t)
		inner := p.Store
		p.Store = faultstore.Wrap(inner, faultstore.Plan{At: n, Effect: faultstore.Refuse, Sticky: true})
		_, err := p.Prune(kit.SmallPrune())
		p.Store = inner
		if err == nil {
			require.NotZero(t, spoiled)
			return
		}
		spoiled += countMarks(t, inner)
		spoil(t, inner)
		if kit.Count(t, inner, store.Lease) > 0 && countMarks(t, inner) > 0 {
			require.ErrorIs(t, blindBackup(p, inner), marks.ErrDamaged, "its prune may be at work")
		}
		p.EndLeases() // as if 45 minutes had passed
		require.NoError(t, blindBackup(p, inner))
		p.RequireRestorable(fmt.Sprintf("killed before operation %d", n), true)
		for range 2 {
			_, err = p.Prune(kit.SmallPrune())
			require.NoError(t, err)
		}
		p.RequireWhole(fmt.Sprintf("the prune after one that was killed before operation %d", n))
	}
}

// TestKilledBackupAndAnUnreadableMark: packs that no index names are left alone until the mark is gone.
func TestKilledBackupAndAnUnreadableMark(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := markedBase(t)
	job := p.SmallJob()
	kit.Written(t, p.Src, map[string]string{"new": string(testkit.Noise(77, 600_000))})
	kit.Settle()
	inner := p.Store
	p.Store = faultstore.Wrap(inner, faultstore.Plan{At: 1, Ops: faultstore.Put, Kind: store.Index, Sticky: true})
	_, _, err := p.Backup(job)
	p.Store = inner
	require.Error(t, err)
	spoil(t, inner)
	p.EndLeases() // as if 45 minutes had passed
	out, _, err := p.Backup(job)
	require.NoError(t, err)
	p.Keep(out.ID)
	p.RequireRestorable("beside an unreadable mark", true)
	_, err = p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	p.RequireWhole("after a prune")
}
