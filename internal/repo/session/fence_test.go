package session

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// beside runs a session of a prune on the same store, which sees the other writers.
func beside(t *testing.T, st store.Store, fn func(ctx context.Context, prune *Session, others []Other)) {
	t.Helper()
	to, _ := target(t, st)
	require.NoError(t, Run(t.Context(), to, Options{Holder: Holder{Task: PruneTask}},
		func(ctx context.Context, s *Session) error {
			others, err := s.Others(ctx)
			require.NoError(t, err)
			fn(ctx, s, others)
			return nil
		}))
}

// A writer that was fenced off finds that out, goes on with the name after the fence, and publishes only if everything
// that it relies on is there. Its own names and the fence are gone in the end.
func TestAFencedWriterLooksAgain(t *testing.T) {
	for name, missing := range map[string]bool{"all is there": false, "a pack was removed": true} {
		t.Run(name, func(t *testing.T) {
			st := mem.New()
			to, x := target(t, st)
			err := Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
				if missing {
					x.packs = append(x.packs, blobindex.PackInfo{ID: format.ID{9}})
				}
				before := leases(t, st)[0].Name
				fenceOff(t, st)
				_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
				require.True(t, s.lease.wasLost())
				require.NotEqual(t, before, s.lease.name)
				return err
			})
			if missing {
				require.ErrorIs(t, err, ErrLeaseLost)
				require.Empty(t, files(t, st, store.Snapshot))
			} else {
				require.NoError(t, err)
				require.Len(t, files(t, st, store.Snapshot), 1)
			}
			require.Empty(t, leases(t, st))
		})
	}
}

// A writer that is fenced off when it has published takes the snapshot back if something is missing.
func TestFencedAfterPublishing(t *testing.T) {
	st := &asleep{deaf: deaf{Store: mem.New()}}
	to, x := target(t, st)
	st.during = func() {
		fenceOff(t, st)
		x.packs = append(x.packs, blobindex.PackInfo{ID: format.ID{9}})
		st.off.Store(false)
	}
	err := Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
		_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
		return err
	})
	require.ErrorIs(t, err, ErrLeaseLost)
	require.Empty(t, files(t, st, store.Snapshot))
}

// A prune removes what a writer has stored that it treats as dead: the writer says that, and does not take the target
// for a copy.
func TestWhatAFencedWriterStoredIsGone(t *testing.T) {
	st := mem.New()
	to, _ := target(t, st)
	err := Run(t.Context(), to, Options{Tuning: Tuning{Segment: 1}}, func(ctx context.Context, s *Session) error {
		add(t, s, pack.Data, []byte("blob"))
		require.NoError(t, s.Flush(ctx))
		fenceOff(t, st)
		require.NoError(t, st.Delete(ctx, files(t, st, store.Pack)[0]))
		_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
		return err
	})
	require.ErrorIs(t, err, ErrLeaseLost)
	require.NotErrorIs(t, err, ErrReplaced)
	require.Empty(t, files(t, st, store.Snapshot))
}

// The same while a pack is read back.
func TestPackOfAFencedWriterIsGone(t *testing.T) {
	st := mem.New()
	to, _ := target(t, st)
	to.Store = &removing{Store: to.Store, after: func(name store.Name) {
		fenceOff(t, st)
		require.NoError(t, st.Delete(t.Context(), name))
	}}
	err := Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
		add(t, s, pack.Data, []byte("blob"))
		return s.Flush(ctx)
	})
	require.ErrorIs(t, err, ErrLeaseLost)
}

// removing calls after when a pack was stored.
type removing struct {
	store.Store
	after func(store.Name)
}

func (r *removing) Put(ctx context.Context, name store.Name, data []byte) error {
	err := r.Store.Put(ctx, name, data)
	if name.Kind == store.Pack {
		r.after(name)
	}
	return err
}

// Whichever operation on a lease loses its answer, a renewal succeeds and is no loss of the lease: the writer has the
// next name, and nothing is left when it ends.
func TestLostAnswersOfRenewals(t *testing.T) {
	for _, op := range []faultstore.Op{faultstore.Put, faultstore.Delete, faultstore.Any} {
		for at := 2; at <= 12; at++ { // the first begins the session
			st := mem.New()
			odd := faultstore.Wrap(st, faultstore.Plan{At: at, Ops: op, Kind: store.Lease, Effect: faultstore.Unsure,
				Err: errors.New("no answer")})
			to, _ := target(t, odd)
			require.NoError(t, Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
				for range 3 {
					require.NoError(t, s.RenewOrFail(ctx), "%v %d", op, at)
				}
				require.EqualValues(t, 3, s.lease.record.Renewal)
				return nil
			}))
			require.Empty(t, leases(t, st), "%v %d", op, at)
		}
	}
}

// A prune fences off a writer that was silent for too long, and removes its lease. The fence stays for a week. A writer
// that renews before the fence is alive.
func TestFencesOfAPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		dead := lease.Lease{ID: lease.ID{7}, Renewal: 4}
		left := store.Name{Kind: store.Lease, ID: dead.Name()}
		next, ok := lease.NextName(left.ID)
		require.True(t, ok)
		fence := store.Name{Kind: store.Lease, ID: next}
		require.NoError(t, st.Put(t.Context(), left, nil))

		beside(t, st, func(ctx context.Context, s *Session, others []Other) {
			require.Len(t, others, 1)
			require.True(t, others[0].Alive)
			all, err := s.Fence(ctx, others)
			require.NoError(t, err)
			require.True(t, all)
		})
		require.Len(t, leases(t, st), 1, "it may be alive")

		time.Sleep(time.Hour)
		beside(t, st, func(ctx context.Context, s *Session, others []Other) {
			require.False(t, others[0].Alive)
			require.NoError(t, st.Put(ctx, fence, nil)) // it renews
			all, err := s.Fence(ctx, others)
			require.NoError(t, err)
			require.False(t, all, "it has renewed: the leases are to be read again")
			others, err = s.Others(ctx)
			require.NoError(t, err)
			require.Len(t, others, 1)
			require.True(t, others[0].Alive)
			require.NoError(t, st.Delete(ctx, fence))
			others, err = s.Others(ctx)
			require.NoError(t, err)
			all, err = s.Fence(ctx, others)
			require.NoError(t, err)
			require.True(t, all)
			require.ErrorIs(t, st.Put(ctx, fence, nil), store.ErrFenced)
		})
		require.Equal(t, []store.Name{fence}, files(t, st, store.Lease))

		for _, stays := range []bool{true, false} {
			time.Sleep(FenceKept - time.Hour*5/4)
			beside(t, st, func(ctx context.Context, s *Session, others []Other) {
				require.Len(t, others, 1)
				require.True(t, others[0].Fenced)
				require.False(t, others[0].Alive)
				all, err := s.Fence(ctx, others)
				require.NoError(t, err)
				require.True(t, all)
			})
			if stays {
				require.Equal(t, []store.Name{fence}, files(t, st, store.Lease))
			} else {
				require.Empty(t, files(t, st, store.Lease))
			}
		}
	})
}

// A writer that has passed its fence counts as running, and what lies before the fence does not count for it.
func TestAWriterPassesItsFence(t *testing.T) {
	st := mem.New()
	name := func(n uint32) store.Name {
		return store.Name{Kind: store.Lease, ID: (&lease.Lease{ID: lease.ID{7}, Renewal: n}).Name()}
	}
	require.NoError(t, st.Put(t.Context(), name(4), nil))
	require.NoError(t, st.Fence(t.Context(), name(5)))
	beside(t, st, func(_ context.Context, _ *Session, others []Other) {
		require.Len(t, others, 1)
		require.False(t, others[0].Alive, "what lies before a fence is young, and dead")
	})
	require.NoError(t, st.Put(t.Context(), name(6), nil))
	beside(t, st, func(_ context.Context, _ *Session, others []Other) {
		require.Len(t, others, 1)
		require.True(t, others[0].Alive)
		require.Equal(t, name(6), others[0].Name)
		require.Len(t, others[0].Older, 2)
	})
}

// The probe of a running prune is no writer, and that of a killed one is removed by the next.
func TestProbesAreNoWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		for range 2 {
			require.NoError(t, st.Fence(t.Context(), store.Name{Kind: store.Lease, ID: lease.ProbeName()}))
		}
		for _, left := range []int{2, 0} {
			beside(t, st, func(_ context.Context, _ *Session, others []Other) { require.Empty(t, others) })
			require.Len(t, files(t, st, store.Lease), left)
			time.Sleep(time.Hour)
		}
	})
}

// farAway is a store 50 ms away.
type farAway struct{ store.Store }

func (f farAway) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	time.Sleep(50 * time.Millisecond)
	return f.Store.Get(ctx, name, off, p)
}

func (f farAway) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	time.Sleep(50 * time.Millisecond)
	return f.Store.Stat(ctx, name)
}

func (f farAway) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	time.Sleep(50 * time.Millisecond)
	return f.Store.List(ctx, kind)
}

// A prune beside 200 writers on a store 50 ms away has read their leases within 2 s.
func TestManyLeasesAreReadSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		to, _ := target(t, st)
		for i := range 200 {
			l := &lease.Lease{ID: lease.ID{1, byte(i)}, Host: "host"}
			data := to.Keys.SealObject(seal.LeaseObject, lease.Encode(l))
			require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Lease, ID: l.Name()}, data))
		}
		beside(t, farAway{st}, func(ctx context.Context, s *Session, _ []Other) {
			begun := time.Now()
			others, err := s.Others(ctx)
			require.NoError(t, err)
			require.Len(t, others, 200)
			for _, o := range others {
				require.Equal(t, "host", o.Lease.Host)
			}
			require.LessOrEqual(t, time.Since(begun), 2*time.Second)
		})
	})
}
