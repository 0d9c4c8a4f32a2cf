package session

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// during is a coherent store that calls something before a snapshot is stored.
type during struct {
	*mem.Store
	call  func()
	ahead time.Duration // of the clock, when it is asked whether a name is fenced
}

func (d *during) Unfenced(ctx context.Context, name store.Name) (time.Time, error) {
	at, err := d.Store.Unfenced(ctx, name)
	return at.Add(d.ahead), err
}

func (d *during) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Snapshot && d.call != nil {
		d.call()
	}
	return d.Store.Put(ctx, name, data)
}

// TestOperationsForTheLastSnapshot: the lease is stored once and removed once, and the name after it and the snapshot
// are looked at.
func TestOperationsForTheLastSnapshot(t *testing.T) {
	for wait, want := range map[time.Duration][3]uint64{0: {2, 2, 1}, 2 * quickRun: {3, 2, 2}} {
		synctest.Test(t, func(t *testing.T) {
			var count meter.Counters
			st := mem.New()
			to, _ := target(t, meter.Wrap(st, count.Observe))
			require.NoError(t, Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
				time.Sleep(wait)
				_, err := s.SaveLast(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
				return err
			}))
			require.Equal(t, want, [3]uint64{count.Puts.Load(), count.Stats.Load(), count.Deletes.Load()})
			require.EqualValues(t, 3, count.Lists.Load(), "marks, index and snapshots")
			require.Empty(t, leases(t, st))
			require.Len(t, files(t, st, store.Snapshot), 1)
		})
	}
}

// TestTheLastSnapshotOfAFencedWriter: a prune fences a writer off before its snapshot is stored, or the lease
// expires by the clock of the target while it is. The writer notices both afterwards, and takes the snapshot back if
// something is gone.
func TestTheLastSnapshotOfAFencedWriter(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, st *during){
		"fenced":           func(t *testing.T, st *during) { fenceOff(t, st.Store) },
		"expired":          func(*testing.T, *during) { time.Sleep(LeaseExpiry + time.Minute) },
		"for one question": func(_ *testing.T, st *during) { st.ahead = LeaseExpiry + time.Minute },
	} {
		for _, missing := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				st := &during{Store: mem.New()}
				to, x := target(t, st)
				st.call = func() {
					harm(t, st)
					if missing {
						x.packs = append(x.packs, blobindex.PackInfo{ID: format.ID{9}})
					}
				}
				frozen := &deafLeases{during: st}
				to.Store = frozen
				err := Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
					frozen.off.Store(what == "expired")
					_, err := s.SaveLast(ctx, &snapshot.Snapshot{Tree: format.ID{1}})
					require.True(t, s.lease.wasLost(), what)
					return err
				})
				if missing {
					require.ErrorIs(t, err, ErrLeaseLost, what)
					require.Empty(t, files(t, st, store.Snapshot), what)
				} else {
					require.NoError(t, err, what)
					require.Len(t, files(t, st, store.Snapshot), 1, what)
				}
				require.Empty(t, leases(t, st), what)
			})
		}
	}
}

// late is a store whose listings may be old, so that the last name of a lease is taken and not looked at.
type late struct {
	store.Store
	passing []bool // for each name that was taken
}

func (l *late) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	l.passing = append(l.passing, store.IsPassing(ctx))
	return l.Store.PutNew(ctx, name, data)
}

// TestOnlyTheLastRenewalIsPassing: it is removed next. Every other one has to stand a crash of the target.
func TestOnlyTheLastRenewalIsPassing(t *testing.T) {
	for want, save := range map[[3]bool]func(s *Session, ctx context.Context, sn *snapshot.Snapshot) (format.ID, error){
		{false, false, true}:  (*Session).SaveLast,
		{false, false, false}: (*Session).Save,
	} {
		synctest.Test(t, func(t *testing.T) {
			st := &late{Store: mem.New()}
			to, _ := target(t, st)
			require.NoError(t, Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
				time.Sleep(2 * quickRun) // so it is renewed before the snapshot too
				_, err := save(s, ctx, &snapshot.Snapshot{Tree: format.ID{1}})
				return err
			}))
			require.Equal(t, want[:], st.passing)
			require.Empty(t, leases(t, st))
		})
	}
}

// deafLeases takes no renewal until the snapshot is stored, as where a machine sleeps.
type deafLeases struct {
	*during
	off atomic.Bool
}

func (d *deafLeases) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	if d.off.Load() {
		return store.Info{}, store.ErrGone
	}
	return d.during.PutNew(ctx, name, data)
}

func (d *deafLeases) Put(ctx context.Context, name store.Name, data []byte) error {
	err := d.during.Put(ctx, name, data)
	if name.Kind == store.Snapshot {
		d.off.Store(false)
	}
	return err
}
