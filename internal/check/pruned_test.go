package check_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
)

// disturbed is a store to which something happens while data is read from it: once before the first file is read, and
// before and after each listing of the index, which have numbers from 1.
type disturbed struct {
	*mem.Store
	l             *report.Ledger
	first         func(*mem.Store)
	before, after func(*mem.Store, int) // may be nil

	once  sync.Once
	mu    sync.Mutex // held while the index is listed
	lists int
}

func (d *disturbed) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if d.l.Snapshot().Phase == report.Verifying {
		d.once.Do(func() { d.first(d.Store) })
	}
	return d.Store.Get(ctx, name, off, p)
}

func (d *disturbed) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	list := d.Store.List(ctx, kind)
	if kind != store.Index || d.l.Snapshot().Phase != report.Verifying {
		return list
	}
	return func(yield func(store.Info, error) bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lists++
		if d.before != nil {
			d.before(d.Store, d.lists)
		}
		list(yield)
		if d.after != nil {
			d.after(d.Store, d.lists)
		}
	}
}

// check reads all data.
func (d *disturbed) check(t *testing.T) *check.Result {
	t.Helper()
	d.l = ledger()
	r, err := stored.Open(t, d)
	require.NoError(t, err)
	res, err := check.Run(t.Context(), r, check.Options{ReadData: true, Parallel: 3}, d.l)
	require.NoError(t, err)
	return res
}

// remove takes files away that are there.
func remove(t *testing.T, st store.Store, infos []store.Info) {
	for _, info := range infos {
		if err := st.Delete(context.Background(), info.Name); err != nil {
			t.Error(err) // not with require: this is no goroutine of the test
		}
	}
}

func ofKind(t *testing.T, st store.Store, kind store.Kind) []store.Info {
	t.Helper()
	return slices.DeleteFunc(files(t, st), func(info store.Info) bool { return info.Name.Kind != kind })
}

// TestManyRemovedPacks: packs that a prune removed before they were read are no damage, and the index is listed once
// for all of them.
func TestManyRemovedPacks(t *testing.T) {
	st, _, _ := sample(t)
	packs, segments := ofKind(t, st, store.Pack), ofKind(t, st, store.Index)
	require.Greater(t, len(packs), 10)
	d := &disturbed{Store: st, first: func(st *mem.Store) {
		remove(t, st, packs)
		remove(t, st, segments)
	}}
	res := d.check(t)
	require.Empty(t, res.Problems)
	require.Len(t, res.Notes, 1)
	require.Contains(t, res.Notes[0], "packs that a prune removed before they were read")
	require.Equal(t, 1, d.lists)
}

// TestLostPackBesideAPrune: a segment that names a pack may be gone when it was listed a moment ago, because another
// was put in its place; that the pack is not among those that could be read does not mean that nothing names it.
func TestLostPackBesideAPrune(t *testing.T) {
	st, _, _ := sample(t)
	packs, kept := ofKind(t, st, store.Pack), copyOf(t, st)
	segments := ofKind(t, st, store.Index)
	d := &disturbed{
		Store: st, first: func(st *mem.Store) { remove(t, st, packs[:1]) },
		before: func(st *mem.Store, n int) {
			for _, info := range segments {
				if err := st.Put(context.Background(), info.Name, content(t, kept, info)); err != nil {
					t.Error(err)
				}
			}
		},
		after: func(st *mem.Store, n int) {
			if n == 1 {
				remove(t, st, segments)
			}
		},
	}
	res := d.check(t)
	require.Equal(t, 3, d.lists, "the third is the search for other copies")
	require.Len(t, res.Problems, 1)
	require.Equal(t, check.Pack, res.Problems[0].Kind)
	require.Equal(t, "pack "+packs[0].Name.ID, res.Problems[0].Object)
}
