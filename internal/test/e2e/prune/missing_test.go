package prune

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// deleteFile deletes the file of a snapshot, as another program does, and returns what the snapshot must restore.
func deleteFile(p *kit.Pruned, id format.ID) map[format.ID]string {
	p.T.Helper()
	require.NoError(p.T, p.Store.Delete(context.Background(), store.Name{Kind: store.Snapshot, ID: id.String()}))
	contents := map[format.ID]string{id: p.Contents[id]}
	delete(p.Contents, id)
	return contents
}

func everything() prune.Options {
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{}
	return opt
}

// files returns the names of all files but leases, which a prune puts and removes.
func files(p *kit.Pruned) (names []store.Name) {
	for _, name := range kit.EveryFile(p.T, p.Store) {
		if name.Kind != store.Lease {
			names = append(names, name)
		}
	}
	return names
}

// TestDeletedSnapshotKeepsItsData deletes the files of all snapshots, or of one: a prune on the machine that made them
// removes nothing, however often it runs, until they are brought back or given up.
func TestDeletedSnapshotKeepsItsData(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ all, giveUp, noCopy, seen bool }{
		"brought back":          {},
		"after a backup warned": {seen: true},
		"all of them":           {all: true},
		"given up":              {giveUp: true, seen: true},
		"without a copy":        {noCopy: true, giveUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := kit.NewPruned(t, mem.New())
			p.Few = true
			ids := []format.ID{p.Snapshot(1), p.Snapshot(2)}
			contents := map[format.ID]string{}
			for i, id := range ids {
				if tc.all || i == 0 {
					maps.Copy(contents, deleteFile(p, id))
				}
			}
			if tc.noCopy {
				copies, err := filepath.Glob(filepath.Join(p.Open.Cache.Dir, "*", "snapshots"))
				require.NoError(t, err)
				require.Len(t, copies, 1)
				require.NoError(t, os.RemoveAll(copies[0]))
			}
			if tc.seen {
				p.Snapshot(3)
			}
			require.NoError(t, p.Store.Put(t.Context(), store.Name{Kind: store.Mark, ID: "00112233445566778899aabbccddeeff"},
				[]byte("a damaged tombstone")))
			before := files(p)
			for range 3 {
				_, err := p.Prune(everything())
				require.ErrorIs(t, err, prune.ErrMissing)
				dry := everything()
				dry.DryRun = true
				_, err = p.Prune(dry)
				require.ErrorIs(t, err, prune.ErrMissing)
				require.ElementsMatch(t, before, files(p), "nothing is removed or added, tombstones included")
			}
			if tc.giveUp {
				require.NoError(t, p.With(func(r *repo.Repository) error {
					named, err := forget.Named(t.Context(), r, []string{ids[0].Short()})
					require.NoError(t, err)
					_, _, err = forget.Drop(t.Context(), r, named)
					return err
				}))
				require.Equal(t, !tc.noCopy, len(listForgotten(p)) == 1, "what has a copy can still come back")
			} else {
				require.NoError(t, undo(p.Engine, contents, p.Contents))
				require.Empty(t, listForgotten(p))
			}
			was := kit.BytesOf(t, p.Store, store.Pack)
			_, err := p.Prune(everything())
			require.NoError(t, err)
			p.RequireWhole("after a prune")
			if tc.giveUp {
				require.Less(t, kit.BytesOf(t, p.Store, store.Pack), was)
				return
			}
			var back []format.ID
			for id := range p.Contents {
				back = append(back, id)
			}
			p.Forget(back...)
			_, err = p.Prune(everything())
			require.NoError(t, err, "what came back under another ID is no longer missing")
			require.Zero(t, kit.BytesOf(t, p.Store, store.Pack))
		})
	}
}

// TestForgottenElsewhereStaysForgotten forgets on another machine. A prune here removes the data, also if the tombstone
// is gone because the prune of the other machine was more than a year ago.
func TestForgottenElsewhereStaysForgotten(t *testing.T) {
	t.Parallel()
	for name, yearAgo := range map[string]bool{"just now": false, "more than a year ago": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := kit.NewPruned(t, mem.New())
			p.Few = true
			old := p.Snapshot(1)
			p.Snapshot(2)
			other := p.Elsewhere(p.Store)
			other.Forget(old)
			if yearAgo {
				_, err := other.Prune(everything())
				require.NoError(t, err)
				for _, name := range kit.EveryFile(t, p.Store) {
					if name.Kind == store.Mark {
						require.NoError(t, p.Store.Delete(t.Context(), name))
					}
				}
			}
			before := kit.BytesOf(t, p.Store, store.Pack)
			for range 2 {
				_, err := p.Prune(everything())
				require.NoError(t, err)
			}
			require.Equal(t, yearAgo, kit.BytesOf(t, p.Store, store.Pack) == before)
			require.Empty(t, listForgotten(p), "it has gone with its data")
			p.RequireWhole("after a prune")
		})
	}
}

// TestPruneOfARepositorySetBack puts the target back to an older state, and prunes: what it has no data of is missing
// for good, and stops nothing. The same happens to copies of one repository that share a cache.
func TestPruneOfARepositorySetBack(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Few = true
	old := p.Snapshot(1)
	p.Snapshot(2)
	now, contents := p.Store, maps.Clone(p.Contents)
	p.Store = kit.CopyOf(t, now)
	newest := p.Snapshot(3)
	newer, all := p.Store, p.Contents

	p.Store, p.Contents = now, contents
	p.Forget(old)
	_, err := p.Prune(everything())
	require.NoError(t, err)
	p.RequireWhole("set back")

	delete(all, old) // where its tombstone is not, so its data stays until it is forgotten there
	p.Store, p.Contents = newer, all
	require.NoError(t, p.With(func(r *repo.Repository) error {
		_, _, err := forget.Drop(t.Context(), r, []repo.Listed{{ID: old}})
		return err
	}))
	deleteFile(p, newest)
	_, err = p.Prune(everything())
	require.ErrorIs(t, err, prune.ErrMissing, "after the other copy had none of it")
}

// TestSnapshotDeletedBetweenAnyTwoStepsOfPrune deletes the file of a snapshot at each step of a prune, and puts it back
// afterwards, as from the bin of a server: nothing of it is lost.
func TestSnapshotDeletedBetweenAnyTwoStepsOfPrune(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	forgotten := base.Snapshot(1)
	base.Snapshot(2)
	gone := base.Snapshot(3)
	base.Forget(forgotten)
	name := store.Name{Kind: store.Snapshot, ID: gone.String()}
	refused := 0
	for n := 1; ; n += testkit.Rounds(2, 1, 1) {
		p := base.Copied(t)
		require.NoError(t, os.CopyFS(p.Open.Cache.Dir, os.DirFS(base.Open.Cache.Dir))) // with the record
		inner := p.Store
		data := kit.Load(t, inner, name)
		st, count := at(inner, n, func() {
			if err := inner.Delete(context.Background(), name); err != nil {
				t.Error(err)
			}
		})
		p.Store = st
		_, err := p.Prune(everything())
		p.Store = inner
		if err != nil {
			require.ErrorIs(t, err, prune.ErrMissing, "before step %d", n)
			refused++
		}
		require.NoError(t, inner.Put(t.Context(), name, data))
		p.RequireWhole("put back")
		if n > *count {
			require.Positive(t, refused)
			return
		}
	}
}
