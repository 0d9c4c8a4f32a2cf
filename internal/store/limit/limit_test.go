package limit_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

const mib = 1 << 20

func TestContract(t *testing.T) {
	testkit.Slow(t)
	fast := limit.New(1<<40, 1<<40)
	storetest.Run(t, func(*testing.T) store.Store { return limit.Wrap(mem.New(), fast) })
	t.Run("Local", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			st, err := local.Create(t.TempDir(), nil)
			require.NoError(t, err)
			return limit.Wrap(st, fast)
		})
	})
}

func TestWithoutLimits(t *testing.T) {
	st := mem.New()
	require.Same(t, st, limit.Wrap(st, limit.New(0, 0)))
}

// elapsed returns how long f takes by the fake clock.
func elapsed(t *testing.T, f func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	require.NoError(t, f())
	return time.Since(begin)
}

// TestRates requires that each store moves 16 MiB at 1 MiB/s in 16 s, by one operation or by several at once, in each
// direction, and that the other direction is not limited.
func TestRates(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return mem.New() },
		"folder": func(t *testing.T) store.Store {
			st, err := local.Create(t.TempDir(), nil)
			require.NoError(t, err)
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := open(t)
			synctest.Test(t, func(t *testing.T) {
				pack := func(i int) store.Name { return store.Name{Kind: store.Pack, ID: []string{"a0", "a1", "a2", "a3"}[i]} }
				both := func(st store.Store, op func(st store.Store, i int) error) func() error {
					return func() error {
						var g errgroup.Group
						for i := range 4 {
							g.Go(func() error { return op(st, i) })
						}
						return g.Wait()
					}
				}
				put := func(st store.Store, i int) error { return st.Put(t.Context(), pack(i), make([]byte, 4*mib)) }
				get := func(st store.Store, i int) error { return st.Get(t.Context(), pack(i), 0, make([]byte, 4*mib)) }
				up := limit.Wrap(inner, limit.New(mib, 0))
				require.InDelta(t, 16, elapsed(t, both(up, put)).Seconds(), 0.1)
				require.Zero(t, elapsed(t, both(up, get)))
				down := limit.Wrap(inner, limit.New(0, mib))
				require.InDelta(t, 16, elapsed(t, both(down, get)).Seconds(), 0.1)
				require.Zero(t, elapsed(t, both(down, put)))
				one := limit.Wrap(inner, limit.New(mib, 2*mib))
				require.InDelta(t, 4, elapsed(t, func() error { return put(one, 0) }).Seconds(), 0.1)
				require.InDelta(t, 2, elapsed(t, func() error { return get(one, 0) }).Seconds(), 0.1)
			})
		})
	}
}

// TestNoBurst samples the file that a Put of 16 MiB grows: at no moment is it more than 64 KiB away from the rate.
func TestNoBurst(t *testing.T) {
	dir := t.TempDir()
	inner, err := local.Create(dir, nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		st := limit.Wrap(inner, limit.New(mib, 0))
		ended := make(chan error)
		go func() { ended <- st.Put(t.Context(), store.Name{Kind: store.Pack, ID: "aba"}, make([]byte, 16*mib)) }()
		for second := range 15 {
			time.Sleep(time.Second)
			synctest.Wait()
			files, err := filepath.Glob(filepath.Join(dir, "packs", "ab", store.TempPrefix+"*"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.InDelta(t, (second+1)*mib, size(t, files[0]), 96<<10)
		}
		require.NoError(t, <-ended)
	})
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	var n int64
	require.NoError(t, filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		n = info.Size()
		return err
	}))
	return n
}

// TestLeaseIsNotDelayed puts a lease while a pack is under way at 4 KiB/s: it does not wait, and it is charged.
func TestLeaseIsNotDelayed(t *testing.T) {
	inner, err := local.Create(t.TempDir(), nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		st := limit.Wrap(inner, limit.New(4<<10, 0))
		ended := make(chan time.Duration)
		go func() {
			ended <- elapsed(t, func() error {
				return st.Put(t.Context(), store.Name{Kind: store.Pack, ID: "ab"},
					make([]byte, mib))
			})
		}()
		time.Sleep(time.Minute)
		require.Zero(t, elapsed(t, func() error {
			return st.Put(t.Context(), store.Name{Kind: store.Lease, ID: "01"}, make([]byte, 400<<10))
		}))
		require.InDelta(t, (356 * time.Second).Seconds(), (<-ended).Seconds(), 2)
	})
}

// TestCancel ends a Put whose pieces would take hours, and leaves nothing behind.
func TestCancel(t *testing.T) {
	dir := t.TempDir()
	inner, err := local.Create(dir, nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		time.AfterFunc(10*time.Second, func() { cancel(stop) })
		st := limit.Wrap(inner, limit.New(1<<10, 0))
		begin := time.Now()
		require.ErrorIs(t, st.Put(ctx, store.Name{Kind: store.Pack, ID: "aba"}, make([]byte, 16*mib)), stop)
		require.Equal(t, 10*time.Second, time.Since(begin))
	})
	left, err := filepath.Glob(filepath.Join(dir, "packs", "ab", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestRetriesAreCharged requires that a failed operation is charged for what it moved.
func TestRetriesAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := limit.Wrap(&torn{Store: mem.New()}, limit.New(mib, 0))
		name := store.Name{Kind: store.Pack, ID: "ab"}
		require.InDelta(t, 4, elapsed(t, func() error {
			require.Error(t, st.Put(t.Context(), name, make([]byte, 4*mib)))
			return st.Put(t.Context(), name, make([]byte, 2*mib))
		}).Seconds(), 0.1)
	})
}

// torn fails the first Put after half of it.
type torn struct {
	*mem.Store
	failed bool
}

func (s *torn) Put(ctx context.Context, name store.Name, data []byte) error {
	if !s.failed {
		s.failed = true
		if err := store.Paced(ctx, store.Upload, len(data)/2); err != nil {
			return err
		}
		return errors.New("torn")
	}
	return s.Store.Put(ctx, name, data)
}

// TestProgress requires that time in which several transfers sleep counts once, and that both figures grow within a
// file.
func TestProgress(t *testing.T) {
	inner, err := local.Create(t.TempDir(), nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		requires := func(l *limit.Limiter, seconds, mibs float64) {
			held, uploaded := l.Progress()
			require.InDelta(t, seconds, held.Seconds(), 0.1)
			require.InDelta(t, mibs, float64(uploaded)/mib, 0.1)
		}
		requires(nil, 0, 0)
		l := limit.New(mib, 0)
		st := limit.Wrap(inner, l)
		var g errgroup.Group
		for _, id := range []string{"a0", "a1"} {
			g.Go(func() error { return st.Put(t.Context(), store.Name{Kind: store.Pack, ID: id}, make([]byte, 4*mib)) })
		}
		time.Sleep(2 * time.Second)
		requires(l, 2, 2)
		require.NoError(t, g.Wait())
		requires(l, 8, 8)
		time.Sleep(time.Hour)
		requires(l, 8, 8)
	})
}
