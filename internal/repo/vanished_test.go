package repo_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// absent is a store that reports some files as missing for a while, like a server with a detached disk.
type absent struct {
	store.Store
	mu    sync.Mutex
	lacks map[string]int // how many more times a file is not found when it is read
	names map[string]int // how often each was asked for
	lists int            // how often snapshots were listed
	later func()         // before snapshots are listed again; nil: nothing happens
}

func (a *absent) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	a.mu.Lock()
	a.names[name.ID]++
	missing := a.lacks[name.ID] > 0
	if missing {
		a.lacks[name.ID]--
	}
	a.mu.Unlock()
	if missing {
		return fmt.Errorf("%s: %w", name.Path(), store.ErrNotExist)
	}
	return a.Store.Get(ctx, name, off, p)
}

func (a *absent) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	if kind == store.Snapshot {
		if a.lists++; a.lists == 2 && a.later != nil {
			a.later()
		}
	}
	return a.Store.List(ctx, kind)
}

// A snapshot that was listed and is not found when it is read may have been forgotten meanwhile; that its file was away
// for a moment must not make an older one the latest.
func TestListedSnapshotIsNotFound(t *testing.T) {
	for name, tc := range map[string]struct {
		times     int  // how often the newest two are not found
		forgotten bool // and they are no longer listed then
	}{
		"for a moment": {times: 1},
		"for good":     {times: 100},
		"forgotten":    {times: 100, forgotten: true},
	} {
		t.Run(name, func(t *testing.T) {
			st := mem.New()
			r := initialise(t, st)
			var ids []format.ID
			for i := range 4 {
				ids = append(ids, save(t, r, snap(format.ID{1}, "h", int64(i))))
			}
			away := ids[2:]
			open := func() (*absent, *repo.Repository) {
				a := &absent{Store: st, lacks: make(map[string]int), names: make(map[string]int)}
				for _, id := range away {
					a.lacks[id.String()] = tc.times
				}
				if tc.forgotten {
					a.later = func() {
						for _, id := range away {
							_ = st.Delete(context.Background(), store.Name{Kind: store.Snapshot, ID: id.String()})
						}
					}
				}
				return a, fresh(t, a)
			}
			a, other := open()
			all, err := other.Snapshots(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, a.lists, "once more for all of them")
			listed := make(map[format.ID]error)
			for _, l := range all {
				listed[l.ID] = l.Err
			}
			want := map[format.ID]error{ids[0]: nil, ids[1]: nil}
			reads := 2
			switch {
			case tc.forgotten:
				reads = 1
			case tc.times == 1:
				want[ids[2]], want[ids[3]] = nil, nil
			default:
				for _, id := range away {
					require.ErrorIs(t, listed[id], store.ErrNotExist)
					want[id] = listed[id]
				}
			}
			require.Equal(t, want, listed)
			for _, id := range away {
				require.Equal(t, reads, a.names[id.String()])
			}
			_, other = open()
			got, err := other.FindSnapshot(t.Context(), repo.Latest, repo.Filter{})
			require.NoError(t, err)
			switch {
			case tc.forgotten:
				require.Equal(t, ids[1], got.ID)
				require.Empty(t, got.Unread)
			case tc.times == 1:
				require.Equal(t, ids[3], got.ID)
				require.Empty(t, got.Unread)
			default: // the caller learns that it may not be the latest
				require.Equal(t, ids[1], got.ID)
				require.ElementsMatch(t, away, got.Unread)
			}
		})
	}
}

// A listing that cannot be repeated leaves it open whether a snapshot is gone.
func TestListedSnapshotIsNotFoundAndTheTargetFails(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	id := save(t, r, snap(format.ID{1}, "h", 1))
	second := faultstore.Wrap(st, faultstore.Plan{At: 2, Ops: faultstore.List, Kind: store.Snapshot, Err: store.ErrGone})
	a := &absent{Store: second, lacks: map[string]int{id.String(): 1}, names: make(map[string]int)}
	_, err := fresh(t, a).Snapshots(t.Context())
	require.ErrorIs(t, err, store.ErrGone)
}
