package session

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// swapped is a store. A test can exchange its content during use.
type swapped struct{ now atomic.Pointer[mem.Store] }

func (s *swapped) Put(ctx context.Context, name store.Name, data []byte) error {
	return s.now.Load().Put(ctx, name, data)
}

func (s *swapped) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	return s.now.Load().Get(ctx, name, off, p)
}

func (s *swapped) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	return s.now.Load().Stat(ctx, name)
}

func (s *swapped) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	return s.now.Load().PutNew(ctx, name, data)
}

func (s *swapped) Fence(ctx context.Context, name store.Name) error {
	return s.now.Load().Fence(ctx, name)
}

func (s *swapped) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return s.now.Load().List(ctx, kind)
}

func (s *swapped) Delete(ctx context.Context, name store.Name) error {
	return s.now.Load().Delete(ctx, name)
}

func (s *swapped) Location() string { return "memory" }

// files returns the names of a kind.
func files(t *testing.T, st store.Store, kind store.Kind) (names []store.Name) {
	t.Helper()
	for info, err := range st.List(t.Context(), kind) {
		require.NoError(t, err)
		names = append(names, info.Name)
	}
	return names
}

// copied returns a store with the files of these kinds that st has.
func copied(t *testing.T, st store.Store, kinds ...store.Kind) *mem.Store {
	t.Helper()
	to := mem.New()
	for _, kind := range kinds {
		for _, name := range files(t, st, kind) {
			info, err := st.Stat(t.Context(), name)
			require.NoError(t, err)
			data := make([]byte, info.Size)
			require.NoError(t, st.Get(t.Context(), name, 0, data))
			require.NoError(t, to.Put(t.Context(), name, data))
		}
	}
	return to
}

// TestWhatWasStoredIsLookedAtAgain: a repository that loses what this session has stored gets no snapshot of it, and no
// index segment that names it.
func TestWhatWasStoredIsLookedAtAgain(t *testing.T) {
	for name, c := range map[string]struct {
		between  func(t *testing.T, st *swapped) // two flushes of the session
		indexed  bool                            // the first pack has its segment by then
		segments int                             // that are there in the end
		says     string
	}{
		"nothing happens": {between: func(*testing.T, *swapped) {}, segments: 1},
		"a pack vanishes before its segment": {between: func(t *testing.T, st *swapped) {
			require.NoError(t, st.Delete(t.Context(), files(t, st, store.Pack)[0]))
		}, says: "store index segment: pack "},
		"a pack vanishes after its segment": {between: func(t *testing.T, st *swapped) {
			require.NoError(t, st.Delete(t.Context(), files(t, st, store.Pack)[0]))
		}, indexed: true, segments: 2, says: "save snapshot: pack "},
		"a pack is cut off": {between: func(t *testing.T, st *swapped) {
			require.NoError(t, st.Put(t.Context(), files(t, st, store.Pack)[0], []byte("short")))
		}, indexed: true, segments: 2, says: "has 5 now"},
		"a segment vanishes": {between: func(t *testing.T, st *swapped) {
			require.NoError(t, st.Delete(t.Context(), files(t, st, store.Index)[0]))
		}, indexed: true, segments: 1, says: "save snapshot: index segment "},
		"a copy takes its place": {between: func(t *testing.T, st *swapped) {
			st.now.Store(copied(t, st, store.Config, store.Lease))
		}, says: "store index segment: pack "},
	} {
		t.Run(name, func(t *testing.T) {
			st := &swapped{}
			st.now.Store(mem.New())
			to, _ := target(t, st)
			opt := Options{Tuning: Tuning{Segment: 100}}
			if c.indexed {
				opt.Tuning.Segment = 1
			}
			err := Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
				add(t, s, pack.Data, []byte("first"))
				for _, p := range s.packers {
					require.NoError(t, p.flush())
				}
				require.NoError(t, s.uploads.empty(ctx))
				c.between(t, st)
				add(t, s, pack.Data, []byte("second"))
				_, err := s.Save(ctx, &snapshot.Snapshot{})
				return err
			})
			require.Len(t, files(t, st, store.Index), c.segments)
			if c.says == "" {
				require.NoError(t, err)
				require.Len(t, files(t, st, store.Snapshot), 1)
				return
			}
			require.ErrorIs(t, err, ErrReplaced)
			require.ErrorIs(t, err, store.ErrGone)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "run 'tidemark check', then the backup again")
			require.Empty(t, files(t, st, store.Snapshot))
		})
	}
}

// TestLookingAgainIsCheap: one stat of a pack when its segment is written, one of each file when the snapshot is, and
// one of the snapshot itself; a dry run makes none.
func TestLookingAgainIsCheap(t *testing.T) {
	for name, c := range map[string]struct {
		opt   Options
		looks uint64
	}{
		"backup":  {Options{}, 2 + 1}, // the pack, twice; the segment
		"dry run": {Options{DryRun: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var count meter.Counters
			to, _ := target(t, meter.Wrap(proving{mem.New()}, count.Observe))
			require.NoError(t, Run(t.Context(), to, c.opt, func(ctx context.Context, s *Session) error {
				add(t, s, pack.Data, []byte("blob"))
				_, err := s.Save(ctx, &snapshot.Snapshot{})
				return err
			}))
			require.Equal(t, c.looks, count.Stats.Load())
		})
	}
}

// slowSegments stores the first index segment when a further pack is being stored, or says that none came.
type slowSegments struct {
	store.Store
	begun, first atomic.Bool
	further      chan struct{}
}

func (p *slowSegments) Put(ctx context.Context, name store.Name, data []byte) error {
	switch {
	case name.Kind == store.Pack && p.begun.Load() && !p.first.Swap(true):
		close(p.further)
	case name.Kind == store.Index && !p.begun.Swap(true):
		select {
		case <-p.further:
		case <-time.After(time.Minute):
			return errors.New("no pack was stored meanwhile")
		}
	}
	return p.Store.Put(ctx, name, data)
}

// TestPacksAreStoredBesideASegment: the buffer of a pack is free while an index segment names it, which takes many
// turns on a far target.
func TestPacksAreStoredBesideASegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _ := target(t, &slowSegments{Store: mem.New(), further: make(chan struct{})})
		opt := Options{Memory: 1, Uploads: 2, Tuning: Tuning{DataPack: 1, Segment: 1}}
		require.NoError(t, Run(t.Context(), to, opt, func(ctx context.Context, s *Session) error {
			add(t, s, pack.Data, []byte{1})
			synctest.Wait()
			add(t, s, pack.Data, []byte{2})
			_, err := s.Save(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
			return err
		}))
	})
}
