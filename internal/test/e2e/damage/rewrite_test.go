package damage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// change runs a change on all readable snapshots of a repository.
func change(p *kit.Pruned, do func(r *repo.Repository, all []repo.Listed) error) error {
	p.T.Helper()
	return p.With(func(r *repo.Repository) error {
		all, err := r.Snapshots(context.Background())
		if err != nil {
			return err
		}
		return do(r, slices.DeleteFunc(all, func(l repo.Listed) bool { return l.Snapshot == nil }))
	})
}

func addTag(p *kit.Pruned) error {
	return change(p, func(r *repo.Repository, all []repo.Listed) error {
		_, err := rewrite.Tags(context.Background(), r, all, rewrite.TagChange{Add: []string{"kept"}}, rewrite.Options{})
		return err
	})
}

// leaveOut excludes a pattern and returns the result.
func leaveOut(p *kit.Pruned, pattern string, opt rewrite.Options) (res *rewrite.Result, err error) {
	b := rules.NewBuilder()
	require.NoError(p.T, b.Exclude(pattern, false, "--exclude"))
	set := b.Compile()
	err = change(p, func(r *repo.Repository, all []repo.Listed) (err error) {
		res, err = rewrite.Exclude(context.Background(), r, all, set, nil, opt)
		return err
	})
	return res, err
}

// byTime returns the readable snapshots by their times, with those that share one.
func byTime(p *kit.Pruned) map[tree.Time][]repo.Listed {
	found := map[tree.Time][]repo.Listed{}
	require.NoError(p.T, change(p, func(_ *repo.Repository, all []repo.Listed) error {
		for _, l := range all {
			found[l.Snapshot.Time] = append(found[l.Snapshot.Time], l)
		}
		return nil
	}))
	return found
}

// TestChangedSnapshotsAreKilled: the target dies at each step of a change of tags and of a rewrite. No snapshot is lost
// at any step, and the next run finishes the change.
func TestChangedSnapshotsAreKilled(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Snapshot(1)
	base.Snapshot(2)
	base.Open.Cache.Temporary = true
	before := byTime(base)
	works := map[string]struct {
		work func(*kit.Pruned) error
		drop string // files with this in their names are gone afterwards
	}{
		"tags": {addTag, "-"},
		"rewrite": {func(p *kit.Pruned) error {
			_, err := leaveOut(p, "f1*", rewrite.Options{Forget: true})
			return err
		}, "f1"},
	}
	for name, c := range works {
		t.Run(name, func(t *testing.T) {
			struck := 0
			for _, plan := range []faultstore.Plan{
				{Sticky: true}, {Ops: faultstore.Put | faultstore.Delete, Effect: faultstore.Unsure, Sticky: true},
			} {
				for plan.At = 1; ; plan.At += testkit.Rounds(7, 3, 1) {
					p := base.Copied(t)
					inner := p.Store
					faulty := faultstore.Wrap(inner, plan)
					p.Store = faulty
					err := c.work(p)
					p.Store = inner
					what := fmt.Sprintf("%s, %+v: %v", name, plan, err)
					for at, was := range before {
						require.NotEmpty(t, byTime(p)[at], "snapshot %s is lost: %s", was[0].ID.Short(), what)
					}
					if !faulty.Fired() {
						require.NoError(t, err)
						break
					}
					struck++
					require.NoError(t, c.work(p), what)
					after := byTime(p)
					require.Len(t, after, len(before), what)
					contents := map[format.ID]string{}
					for at, was := range before {
						require.Len(t, after[at], 1, "one of the two remains: %s", what)
						got := after[at][0]
						require.Equal(t, was[0].ID, got.Snapshot.Original, what)
						require.Equal(t, name == "tags", slices.Contains(got.Snapshot.Tags, "kept"), what)
						contents[got.ID] = without(t, base.Contents[was[0].ID], c.drop)
					}
					p.Contents = contents
					p.RequireWhole(what)
				}
			}
			require.Greater(t, struck, testkit.Rounds(2, 5, 10), "steps at which the target died")
		})
	}
}

// without copies a directory without the files that have part in their names.
func without(t *testing.T, dir, part string) string {
	t.Helper()
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	require.NoError(t, filepath.Walk(copied, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && strings.Contains(info.Name(), part) {
			err = os.Remove(path)
		}
		return err
	}))
	return copied
}

// TestRewriteKeepsTheRest: directories without a match keep their IDs, the statistics are those of the new tree, and a
// dry run and a second run change nothing.
func TestRewriteKeepsTheRest(t *testing.T) {
	p := kit.NewPruned(t, mem.New())
	kit.Written(t, p.Src, map[string]string{
		"same/deep/a": "a", "same/b": string(testkit.Noise(1, 50_000)), "mixed/drop.iso": string(testkit.Noise(2, 90_000)),
		"mixed/kept": "kept", "whole.iso/x": "x", "whole.iso/y/z": "zz",
	})
	require.NoError(t, os.Symlink("nowhere", filepath.Join(p.Src, "link.iso")))
	kit.Settle()
	out, _, err := p.Backup(p.SmallJob())
	require.NoError(t, err)

	files := kit.EveryFile(t, p.Store)
	dry, err := leaveOut(p, "*.iso", rewrite.Options{SessionOptions: repo.SessionOptions{DryRun: true}, Forget: true})
	require.NoError(t, err)
	require.ElementsMatch(t, files, kit.EveryFile(t, p.Store))
	res, err := leaveOut(p, "*.iso", rewrite.Options{})
	require.NoError(t, err)
	require.Len(t, res.Changed, 1)
	require.Equal(t, snapshot.Content{Files: 3, Dirs: 2, Others: 1, Bytes: 90_003}, res.Changed[0].Left)
	require.Equal(t, dry.Changed[0].Left, res.Changed[0].Left)
	fresh := res.Changed[0]
	require.NoError(t, p.With(func(r *repo.Repository) error {
		ctx := context.Background()
		var content snapshot.Content
		require.NoError(t, browse.List(ctx, r.LoadBlob, fresh.Snapshot.Tree, "", true, func(_ string, n *tree.Node) error {
			switch n.Type {
			case tree.File:
				content.Files, content.Bytes = content.Files+1, content.Bytes+n.Size
			case tree.Dir:
				content.Dirs++
			default:
				content.Others++
			}
			return nil
		}))
		require.Equal(t, content, fresh.Snapshot.Stats.Content)
		for _, sub := range []string{"same", "same/deep"} {
			was, err := browse.Resolve(ctx, r.LoadBlob, out.Snapshot.Tree, p.Src+"/"+sub)
			require.NoError(t, err)
			is, err := browse.Resolve(ctx, r.LoadBlob, fresh.Snapshot.Tree, p.Src+"/"+sub)
			require.NoError(t, err)
			require.Equal(t, was.Subtree, is.Subtree, sub)
		}
		return nil
	}))
	again, err := leaveOut(p, "*.iso", rewrite.Options{})
	require.NoError(t, err)
	require.Equal(t, fresh.New, again.Changed[0].New, "the same snapshot is not saved twice")
	require.Equal(t, 2, kit.Count(t, p.Store, store.Snapshot))
	all, err := leaveOut(p, "*", rewrite.Options{Forget: true})
	require.NoError(t, err)
	require.Len(t, all.Empty, 2)
	require.Equal(t, 2, kit.Count(t, p.Store, store.Snapshot), "what would be empty stays")
}

// TestChangedSnapshotsNeedWhatIsThere: a snapshot that lost data is not replaced. Data that lies in packs that are
// marked and can be read is stored again, so the packs may go.
func TestChangedSnapshotsNeedWhatIsThere(t *testing.T) {
	t.Parallel()
	mark := func(p *kit.Pruned, kind pack.Kind) {
		require.NoError(t, p.With(func(r *repo.Repository) error {
			var ids []format.ID
			for _, name := range packsOf(p, kind) {
				id, err := format.ParseID(name.ID)
				require.NoError(t, err)
				ids = append(ids, id)
			}
			_, err := r.RecordDamage(context.Background(), "test", ids)
			return err
		}))
	}
	for _, lose := range []bool{false, true} {
		p := kit.NewPruned(t, mem.New())
		p.Few = true
		old := p.Snapshot(1)
		if mark(p, pack.Data); lose {
			require.NoError(t, p.Store.Delete(context.Background(), packsOf(p, pack.Data)[0]))
			p.Open.Cache.Dir = testkit.RamDir(t)
			require.ErrorIs(t, addTag(p), rewrite.ErrDamaged)
			_, err := p.Store.Stat(context.Background(), store.Name{Kind: store.Snapshot, ID: old.String()})
			require.NoError(t, err, "the original stays")
			continue
		}
		require.NoError(t, addTag(p))
		after := byTime(p)
		for _, l := range after {
			require.Len(t, l, 1)
			p.Contents = map[format.ID]string{l[0].ID: p.Contents[old]}
		}
		_, err := p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		p.RequireWhole("its data is in other packs")
	}
}
