package prune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// forgetFor forgets snapshots as the command does, and returns what they must restore.
func forgetFor(p *kit.Pruned, ids ...format.ID) (contents map[format.ID]string) {
	p.T.Helper()
	contents = map[format.ID]string{}
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.NoError(p.T, err)
		listed = slices.DeleteFunc(listed, func(l repo.Listed) bool { return !slices.Contains(ids, l.ID) })
		require.Len(p.T, listed, len(ids))
		_, _, err = forget.Drop(context.Background(), r, listed)
		return err
	}))
	for _, id := range ids {
		contents[id] = p.Contents[id]
		delete(p.Contents, id)
	}
	return contents
}

// undo brings snapshots back, and notes what they must restore.
func undo(e *kit.Engine, forgotten map[format.ID]string, contents map[format.ID]string) error {
	return e.With(func(r *repo.Repository) error {
		var refs []string
		for id := range forgotten {
			refs = append(refs, id.String())
		}
		back, err := rewrite.Undo(context.Background(), r, refs, rewrite.Options{})
		for i := range back {
			contents[back[i].New] = forgotten[back[i].Old.ID]
		}
		return err
	})
}

// copied is the repository once more, with its tombstones.
func copied(t *testing.T, base *kit.Pruned) *kit.Pruned {
	t.Helper()
	p := base.Copied(t)
	for info, err := range base.Store.List(t.Context(), store.Mark) {
		require.NoError(t, err)
		require.NoError(t, p.Store.Put(t.Context(), info.Name, kit.Load(t, base.Store, info.Name)))
	}
	return p
}

// listForgotten returns the IDs of the snapshots that are offered.
func listForgotten(p *kit.Pruned) (ids []format.ID) {
	p.T.Helper()
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		all, err := rewrite.Forgotten(context.Background(), r)
		for _, l := range all {
			ids = append(ids, l.ID)
		}
		return err
	}))
	return ids
}

// TestForgetIsUndone: forgotten snapshots come back, all or none of several, until a prune has removed data; the one
// that is back is like any other for a backup, a forget and a prune.
func TestForgetIsUndone(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Few = true
	ids := []format.ID{p.Snapshot(1), p.Snapshot(2), p.Snapshot(3)}
	require.Empty(t, listForgotten(p))
	gone := forgetFor(p, ids[:2]...)
	require.Equal(t, ids[:2], listForgotten(p))
	require.NoError(t, undo(p.Engine, gone, p.Contents))
	require.Empty(t, listForgotten(p), "what is back is not offered")
	p.RequireWhole("after undo")
	require.Len(t, p.Contents, 3)
	_, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	p.RequireWhole("after a prune")

	// Forgotten once more, one comes back on another machine; the data of the other one is removed.
	var again []format.ID
	for id := range p.Contents {
		if id != ids[2] {
			again = append(again, id)
		}
	}
	gone = forgetFor(p, again...)
	require.ElementsMatch(t, again, listForgotten(p), "each once, under its new ID")
	other := p.Elsewhere(p.Store)
	one := maps.Clone(gone)
	delete(one, again[0])
	require.NoError(t, undo(other.Engine, one, p.Contents))
	_, err = p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	p.RequireWhole("one is back")
	before := maps.Clone(p.Contents)
	require.ErrorIs(t, undo(p.Engine, map[format.ID]string{again[0]: ""}, p.Contents), rewrite.ErrPruned)
	require.Equal(t, before, p.Contents)
	p.RequireWhole("nothing was published")
	require.ErrorIs(t, undo(p.Engine, map[format.ID]string{ids[2]: ""}, p.Contents), rewrite.ErrNotForgotten)
	p.Snapshot(4)
	p.RequireWhole("a backup goes on")
}

// TestUndoBetweenAnyTwoStepsOfPrune undoes a forget before each step of a prune: the undo refuses, or everything can be
// restored.
func TestUndoBetweenAnyTwoStepsOfPrune(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Snapshot(1)
	gone := forgetFor(base, base.Snapshot(2))
	refused, undone := 0, 0
	for n := 1; ; n += testkit.Rounds(5, 2, 1) {
		p := copied(t, base)
		inner := p.Store
		st, count := at(inner, n, func() {
			other := p.Elsewhere(inner)
			switch err := undo(other.Engine, gone, p.Contents); {
			case errors.Is(err, rewrite.ErrPruned):
				refused++
			case err != nil:
				t.Errorf("undo before step %d: %v", n, err) // not in the goroutine of the test
			default:
				undone++
			}
		})
		p.Store = st
		_, err := p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		require.False(t, t.Failed())
		p.Store = inner
		p.RequireRestorable(fmt.Sprintf("undo before step %d of %d", n, *count), true)
		_, err = p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		require.Zero(t, countMarks(t, inner))
		p.RequireWhole(fmt.Sprintf("the prune after the undo before step %d", n))
		if n > *count {
			require.GreaterOrEqual(t, *count, 15)
			break
		}
	}
	require.NotZero(t, refused, "after the data was removed")
	require.NotZero(t, undone, "before it was removed")
}

// TestPruneBetweenAnyTwoStepsOfUndo makes a whole prune before each step of an undo.
func TestPruneBetweenAnyTwoStepsOfUndo(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Snapshot(1)
	gone := forgetFor(base, base.Snapshot(2))
	for n := 1; ; n += testkit.Rounds(4, 2, 1) {
		p := copied(t, base)
		inner := p.Store
		st, count := at(inner, n, func() {
			p.PruneTwice(inner, fmt.Sprintf("before step %d", n))
		})
		p.Store = st
		err := undo(p.Engine, gone, p.Contents)
		p.Store = inner
		require.True(t, err == nil || errors.Is(err, rewrite.ErrPruned), "prune before step %d: %v", n, err)
		require.False(t, t.Failed())
		p.RequireWhole(fmt.Sprintf("prune before step %d of %d", n, *count))
		if n > *count {
			require.GreaterOrEqual(t, *count, 5)
			return
		}
	}
}

// TestForgetOnAFullDiskIsFinal: the disk has no space for what an undo needs. The snapshot goes, and the output says
// that it does not come back.
func TestForgetOnAFullDiskIsFinal(t *testing.T) {
	p := kit.NewPruned(t, mem.New())
	p.Few = true
	p.Snapshot(1)
	inner := p.Store
	for full, want := range map[bool]string{true: "cannot be brought back", false: "forget --undo ID"} {
		p.Snapshot(2)
		p.Store = inner
		if full {
			p.Store = faultstore.Wrap(inner, faultstore.Plan{At: 1, Ops: faultstore.Put, Kind: store.Mark,
				Err: store.ErrNoSpace})
		}
		require.NoError(t, p.With(func(r *repo.Repository) error {
			listed, err := r.Snapshots(t.Context())
			require.NoError(t, err)
			f := output.Forgotten{Groups: []output.ForgottenGroup{{Verdicts: []forget.Verdict{{Listed: listed[0]}}}}}
			f.Dropped, f.Undo, err = forget.Drop(t.Context(), r, listed[:1])
			require.NoError(t, err)
			var out show.Page
			f.Text(&out)
			require.Contains(t, out.String(), "removed: 1 snapshot")
			require.Contains(t, out.String(), want)
			return nil
		}))
		p.Store = inner
	}
}

// TestARefusedForgetLeavesNothing: the target does not let a snapshot be removed. The snapshot stays, and no record
// names it as forgotten, unless the target keeps that too.
func TestARefusedForgetLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]store.Kind{{store.Snapshot}, {store.Snapshot, store.Mark}} {
		p := kit.NewPruned(t, mem.New())
		p.Few = true
		stays, goes := p.Snapshot(1), p.Snapshot(2)
		inner := p.Store
		p.Store = &kept{Store: inner, kinds: kinds, but: goes.String()}
		require.NoError(t, p.With(func(r *repo.Repository) error {
			listed, err := r.Snapshots(t.Context())
			require.NoError(t, err)
			dropped, _, err := forget.Drop(t.Context(), r, listed)
			require.ErrorIs(t, err, forget.ErrSome)
			require.ErrorContains(t, err, stays.Short()+": this user may add files there, but not delete these")
			require.NotContains(t, err.Error(), "read and write")
			require.Equal(t, len(kinds) > 1, strings.Contains(err.Error(), "stays in the folder marks"), err)
			require.Equal(t, map[format.ID]bool{goes: true}, dropped)
			left, err := marks.WithoutTombstone(t.Context(), inner, r.Keys(), []format.ID{stays, goes})
			require.NoError(t, err)
			require.Equal(t, len(kinds) == 1, slices.Contains(left, stays), "a record of what was not forgotten")
			require.NotContains(t, left, goes)
			return nil
		}))
		p.Store = inner
		delete(p.Contents, goes)
		require.Equal(t, []format.ID{goes}, listForgotten(p))

		name := store.Name{Kind: store.Snapshot, ID: stays.String()}
		data := kit.Load(t, p.Store, name)
		require.NoError(t, p.Store.Put(t.Context(), name, data[:len(data)-1])) // a backup sees that
		if len(kinds) == 1 {
			out, _, err := p.Backup(p.SmallJob())
			require.NoError(t, err)
			require.Equal(t, []format.ID{stays}, out.PutBack, "this machine still has its copy")
		}
	}
}

// kept is a store that does not let files of some kinds be removed, but for one.
type kept struct {
	store.Store
	kinds []store.Kind
	but   string
}

func (k *kept) Delete(ctx context.Context, name store.Name) error {
	if slices.Contains(k.kinds, name.Kind) && name.ID != k.but {
		return fmt.Errorf("%w: let this user read and write there", store.ErrDenied)
	}
	return k.Store.Delete(ctx, name)
}
