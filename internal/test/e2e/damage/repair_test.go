package damage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
	sealed "github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

func repairIndex(p *kit.Pruned, dry bool) (res *repair.IndexResult, err error) {
	p.T.Helper()
	err = p.With(func(r *repo.Repository) error {
		res, err = repair.Index(context.Background(), r, repo.SessionOptions{DryRun: dry})
		return err
	})
	return res, err
}

func repairPacks(p *kit.Pruned, dry bool) (res *repair.PacksResult, err error) {
	p.T.Helper()
	err = p.With(func(r *repo.Repository) error {
		res, err = repair.Packs(context.Background(), r, nil, repo.SessionOptions{DryRun: dry})
		return err
	})
	return res, err
}

func repairSnapshots(p *kit.Pruned, opt repair.SnapshotOptions) (res *repair.SnapshotsResult, err error) {
	p.T.Helper()
	err = p.With(func(r *repo.Repository) error {
		res, err = repair.Snapshots(context.Background(), r, opt)
		return err
	})
	return res, err
}

// lyingSegment replaces a segment by a well-sealed one that lists wrong blobs for its packs.
func lyingSegment(t *testing.T, p *kit.Pruned, name store.Name) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, p.With(func(r *repo.Repository) error {
		plain, err := sealed.Load(ctx, p.Store, r.Keys(), name, -1)
		require.NoError(t, err)
		seg, err := index.Decode(plain)
		require.NoError(t, err)
		for i := range seg.Packs {
			for _, f := range seg.Packs[i].Table.Frames {
				for j := range f.Blobs {
					f.Blobs[j].ID[5] ^= 0xff
				}
			}
		}
		data, id := sealed.Seal(r.Keys(), store.Index, index.Encode(nil, seg))
		require.NoError(t, p.Store.Delete(ctx, name))
		return p.Store.Put(ctx, sealed.Named(store.Index, id), data)
	}))
	p.Open.Cache.Dir = testkit.RamDir(t)
}

// damagedIndexes are what can become of an index.
func damagedIndexes() map[string]func(t *testing.T, p *kit.Pruned, segments []store.Name) {
	ctx := context.Background()
	return map[string]func(*testing.T, *kit.Pruned, []store.Name){
		"all are gone": func(t *testing.T, p *kit.Pruned, segments []store.Name) {
			for _, name := range segments {
				require.NoError(t, p.Store.Delete(ctx, name))
			}
		},
		"one is gone": func(t *testing.T, p *kit.Pruned, segments []store.Name) {
			require.NoError(t, p.Store.Delete(ctx, segments[0]))
		},
		"one is damaged": func(t *testing.T, p *kit.Pruned, segments []store.Name) {
			require.NoError(t, p.Store.Put(ctx, segments[0], faultstore.Flip(kit.Load(t, p.Store, segments[0]), 40)))
		},
		"one says what is not so": func(t *testing.T, p *kit.Pruned, segments []store.Name) {
			lyingSegment(t, p, segments[0])
		},
	}
}

func segments(p *kit.Pruned) []store.Name {
	return slices.DeleteFunc(sorted(kit.EveryFile(p.T, p.Store)), func(n store.Name) bool { return n.Kind != store.Index })
}

// TestRepairIndex damages the index in every way. It is rebuilt from the packs. A dry run reports the same and changes
// nothing, and the next repair finishes one that was killed at any step.
func TestRepairIndex(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for name, damage := range damagedIndexes() {
		t.Run(name, func(t *testing.T) {
			base := kit.NewPruned(t, mem.New())
			base.Few = true
			base.Snapshot(1)
			base.Snapshot(2)
			base.Open.Cache.Dir = testkit.RamDir(t)
			damage(t, base, segments(base))
			require.NotEmpty(t, base.Problems())

			p := base.Copied(t)
			before := sorted(kit.EveryFile(t, p.Store))
			forecast, err := repairIndex(p, true)
			require.NoError(t, err)
			require.False(t, forecast.OK())
			require.Equal(t, before, sorted(kit.EveryFile(t, p.Store)), "a dry run writes nothing")
			p = base.Copied(t)
			res, err := repairIndex(p, false)
			require.NoError(t, err)
			require.NotZero(t, res.Written)
			require.True(t, forecast.DryRun)
			res.Written, res.DryRun = 0, true
			require.Equal(t, forecast, res)
			p.RequireWhole("repaired")
			res, err = repairIndex(p, false)
			require.NoError(t, err)
			require.True(t, res.OK(), "there is nothing left to do: %+v", res)

			everyFault(t, base, func(p *kit.Pruned) error {
				_, err := repairIndex(p, false)
				return err
			}, func(p *kit.Pruned, what string) { p.RequireWhole(what) })
		})
	}
}

// TestRepairIndexNamesMissingPacks: each run names a missing pack, until a backup has stored its blobs again.
func TestRepairIndexNamesMissingPacks(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Few = true
	p.Snapshot(1)
	gone := packsOf(p, pack.Data)[0]
	require.NoError(t, p.Store.Delete(context.Background(), gone))
	p.Open.Cache.Dir = testkit.RamDir(t)
	for run, dry := range []bool{true, false, true, false} {
		res, err := repairIndex(p, dry)
		require.NoError(t, err)
		require.True(t, res.OK(), "run %d", run)
		require.Len(t, res.Absent, 1, "run %d", run)
		require.Equal(t, gone.ID, res.Absent[0].String())
		require.Equal(t, min(run, 1), kit.Count(t, p.Store, store.Mark), "one mark")
	}
	kit.Settle()
	_, _, err := p.Backup(p.SmallJob())
	require.NoError(t, err)
	res, err := repairIndex(p, false)
	require.NoError(t, err)
	require.Empty(t, res.Absent, "its blobs are in another pack")
}

// everyFault has each operation of some work on the store fail, and the target die with it, and then does the work
// again on a target that is well.
func everyFault(t *testing.T, base *kit.Pruned, work func(*kit.Pruned) error, sound func(p *kit.Pruned, what string)) {
	t.Helper()
	struck := 0
	for _, plan := range []faultstore.Plan{
		{Sticky: true}, {Ops: faultstore.Put | faultstore.Delete, Effect: faultstore.Unsure, Sticky: true},
		{Ops: faultstore.Put, Effect: faultstore.Torn, Sticky: true},
	} {
		step := testkit.Rounds(13, 9, 2)
		for plan.At = 1; ; plan.At += step {
			p := withMarks(base, t)
			inner := p.Store
			faulty := faultstore.Wrap(inner, plan)
			p.Store = faulty
			err := work(p)
			p.Store = inner
			if !faulty.Fired() {
				require.NoError(t, err)
				break
			}
			struck++
			what := fmt.Sprintf("%+v: %v", plan, err)
			p.Open.Cache.Dir = testkit.RamDir(t)
			require.NoError(t, work(p), what)
			if plan.Effect == faultstore.Torn { // half a pack that no index names: a check reports it until a prune removes it
				_, err := p.Prune(kit.SmallPrune())
				require.NoError(t, err, what)
			}
			sound(p, what)
		}
	}
	require.Greater(t, struck, 5)
}

// withMarks is copied with the marks.
func withMarks(p *kit.Pruned, t *testing.T) *kit.Pruned {
	t.Helper()
	c := p.Copied(t)
	for info, err := range p.Store.List(context.Background(), store.Mark) {
		require.NoError(t, err)
		require.NoError(t, c.Store.Put(context.Background(), info.Name, kit.Load(t, p.Store, info.Name)))
	}
	return c
}

// lossy is a repository whose source is gone. A part of each data pack is damaged.
func lossy(t *testing.T) *kit.Pruned {
	t.Helper()
	p := kit.NewPruned(t, mem.New())
	p.Few = true
	kit.Written(t, p.Src, map[string]string{
		"keep/small": "in its node", "keep/a": string(testkit.Noise(1, 60_000)), "keep/b": string(testkit.Noise(2, 60_000)),
		"large": string(testkit.Noise(3, 2_500_000)),
	})
	p.Snapshot(1)
	p.Snapshot(2)
	packs := packsOf(p, pack.Data)
	require.Greater(t, len(packs), 3)
	for i, name := range packs {
		if i%3 == 0 {
			data := kit.Load(t, p.Store, name)
			require.NoError(t, p.Store.Put(context.Background(), name, faultstore.Flip(data, 100)))
		}
	}
	p.Open.Cache.Dir = testkit.RamDir(t)
	require.False(t, checkAndRecord(p).OK())
	return p
}

// restorable restores every snapshot and returns which files came back and which did not, by snapshot and path.
func restorable(p *kit.Pruned) (whole, lost []string) {
	p.T.Helper()
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.NoError(p.T, err)
		for _, l := range listed {
			id := l.ID
			if !l.Snapshot.Original.IsZero() {
				id = l.Snapshot.Original
			}
			dst := filepath.Join(testkit.RamDir(p.T), "dst")
			ledger := report.NewJob(report.Restore, time.Now)
			_, err := restore.Run(context.Background(), r, restore.Selection{Tree: l.Snapshot.Tree, Sub: p.Src}, kit.Target(dst),
				2, ledger)
			require.NoError(p.T, err)
			want := p.Contents[id]
			require.NoError(p.T, filepath.WalkDir(want, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				rel, _ := filepath.Rel(want, path)
				was, err := os.ReadFile(path)
				require.NoError(p.T, err)
				is, err := os.ReadFile(filepath.Join(dst, rel))
				if name := id.Short() + "/" + rel; err == nil {
					require.Equal(p.T, was, is, "never wrong content: %s", name)
					whole = append(whole, name)
				} else {
					lost = append(lost, name)
				}
				return nil
			}))
		}
		return nil
	}))
	slices.Sort(whole)
	slices.Sort(lost)
	return whole, lost
}

// named are losses as restorable has them.
func named(p *kit.Pruned, losses *repair.Losses) (names []string) {
	for _, l := range losses.List {
		names = append(names, l.Snapshot.Short()+strings.TrimPrefix(l.Exact(), p.Src))
	}
	slices.Sort(names)
	return names
}

// TestRepairWithoutTheSource: parts of packs are damaged, and the source is gone. Repair saves what is readable and
// names exactly what is lost. It replaces the snapshots by others that a check finds whole, and a prune removes the
// damaged packs.
func TestRepairWithoutTheSource(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := lossy(t)
	whole, lost := restorable(p)
	require.NotEmpty(t, whole)
	require.NotEmpty(t, lost)
	before := sorted(kit.EveryFile(t, p.Store))
	dry, err := repairPacks(p, true)
	require.NoError(t, err)
	dryer, err := repairSnapshots(p, repair.SnapshotOptions{SessionOptions: repo.SessionOptions{DryRun: true}})
	require.NoError(t, err)
	require.Equal(t, before, sorted(kit.EveryFile(t, p.Store)), "a dry run writes nothing")

	packs, err := repairPacks(p, false)
	require.NoError(t, err)
	packs.DryRun = true
	require.Equal(t, dry, packs)
	require.Equal(t, lost, named(p, &packs.Losses))
	for _, s := range packs.Packs {
		require.NotZero(t, s.Bad)
	}
	again, sameLost := restorable(p)
	require.Equal(t, whole, again)
	require.Equal(t, lost, sameLost)

	snapshots, err := repairSnapshots(p, repair.SnapshotOptions{})
	require.NoError(t, err)
	require.Equal(t, lost, named(p, &snapshots.Losses))
	require.Len(t, snapshots.Replaced, len(dryer.Replaced))
	requireMended(p, whole, lost, "repaired")
	_, err = p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.Zero(t, kit.Count(t, p.Store, store.Mark))
	requireMended(p, whole, lost, "after a prune")

	snapshots, err = repairSnapshots(p, repair.SnapshotOptions{})
	require.NoError(t, err)
	require.Empty(t, snapshots.Replaced, "there is nothing left to do")

	kit.Settle()
	out, _, err := p.Backup(p.SmallJob()) // what the source has again is stored again
	require.NoError(t, err)
	p.Keep(out.ID)
	requireNewestRestores(p, "after a backup")
	p.RequireSound()
}

// requireMended requires that a check finds nothing in the repository, and that all data restores except what was lost.
func requireMended(p *kit.Pruned, whole, lost []string, what string) {
	p.T.Helper()
	found := checkAndRecord(p)
	require.True(p.T, found.OK(), "%s: %v", what, found.Problems)
	again, still := restorable(p)
	require.Equal(p.T, whole, again, what)
	require.Equal(p.T, lost, still, what)
}

// TestRepairIsKilled: a repair of packs and snapshots is killed at each of its steps, and the next one finishes it.
func TestRepairIsKilled(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := lossy(t)
	whole, lost := restorable(base)
	base.Open.Cache.Temporary = true
	works := map[string]func(*kit.Pruned) error{
		"packs": func(p *kit.Pruned) error {
			_, err := repairPacks(p, false)
			return err
		},
		"snapshots": func(p *kit.Pruned) error {
			_, err := repairSnapshots(p, repair.SnapshotOptions{Drop: true}) // half a snapshot, of a store that tears files
			return err
		},
	}
	for _, name := range slices.Sorted(maps.Keys(works)) {
		t.Run(name, func(t *testing.T) {
			everyFault(t, base, works[name], func(p *kit.Pruned, what string) {
				if name == "snapshots" {
					requireMended(p, whole, lost, what)
					require.Equal(t, len(p.Contents), kit.Count(t, p.Store, store.Snapshot), what)
					return
				}
				again, still := restorable(p)
				require.Equal(t, whole, again, what)
				require.Equal(t, lost, still, what)
			})
		})
	}
}

// TestRepairDropsWhatCannotBeRead: a snapshot with a damaged record, or without its root, stays until the user asks for
// its removal.
func TestRepairDropsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Few = true
	bad := p.Snapshot(1)
	p.Snapshot(2)
	name := store.Name{Kind: store.Snapshot, ID: bad.String()}
	require.NoError(t, p.Store.Put(context.Background(), name, faultstore.Flip(kit.Load(t, p.Store, name), 50)))
	for _, drop := range []bool{false, true} {
		res, err := repairSnapshots(p, repair.SnapshotOptions{Drop: drop})
		require.NoError(t, err)
		require.Equal(t, []repair.Replaced{{Old: bad, Dropped: drop, Kept: !drop}}, res.Replaced)
		_, err = p.Store.Stat(context.Background(), name)
		require.Equal(t, drop, err != nil)
	}
	delete(p.Contents, bad)
	p.RequireWhole("dropped")
}

// TestRepairOfAnUnreachableTarget: each pack of trees is marked and none is damaged. A read of one that fails since the
// target is unreachable ends the repair. It never makes a file count as lost.
func TestRepairOfAnUnreachableTarget(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	// too many chunks for its node
	kit.Written(t, base.Src, map[string]string{"listed": string(testkit.Noise(3, 4_000_000))})
	kit.Settle()
	job := base.SmallJob()
	job.Session.Tuning.Frame = 1 << 10 // the list is in another frame than the directories
	out, _, err := base.Backup(job)
	require.NoError(t, err)
	base.Keep(out.ID)
	require.NoError(t, base.With(func(r *repo.Repository) error {
		var packs []format.ID
		for _, name := range packsOf(base, pack.Trees) {
			id, err := format.ParseID(name.ID)
			require.NoError(t, err)
			packs = append(packs, id)
		}
		_, err := r.RecordDamage(context.Background(), "test", packs)
		return err
	}))
	failed := 0
	for at := 1; ; at++ {
		p := withMarks(base, t)
		faulty := faultstore.Wrap(p.Store, faultstore.Plan{
			At: at, Ops: faultstore.Get, Kind: store.Pack, Err: store.ErrTemporary,
		})
		p.Store = faulty
		res, err := repairSnapshots(p, repair.SnapshotOptions{})
		require.Zero(t, res.Losses.Count(), "read %d: %v, %v", at, res.Losses.List, err)
		if !faulty.Fired() {
			require.NoError(t, err)
			break
		}
		if err != nil {
			require.ErrorIs(t, err, store.ErrTemporary, "read %d", at)
			failed++
		}
	}
	require.NotZero(t, failed)
}
