package damage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// harms are kinds of damage that change the size of a stored file.
func harms() map[string]func(t *testing.T, st store.Store, name store.Name) {
	put := func(size func(int) int) func(*testing.T, store.Store, store.Name) {
		return func(t *testing.T, st store.Store, name store.Name) {
			data := kit.Load(t, st, name)
			require.NoError(t, st.Put(context.Background(), name, data[:size(len(data))]))
		}
	}
	return map[string]func(*testing.T, store.Store, store.Name){
		"missing": func(t *testing.T, st store.Store, name store.Name) {
			require.NoError(t, st.Delete(context.Background(), name))
		},
		"empty":   put(func(int) int { return 0 }),
		"cut off": put(func(n int) int { return n - 1 }),
	}
}

// TestBackupStoresLostPacksAgain: packs are missing, empty or cut off, and nothing has changed in the source. The next
// backup of this machine or of another notices without any flag, and its snapshot can be restored. The backup after
// that reads nothing again, and a prune removes the rest of the damage.
func TestBackupStoresLostPacksAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for name, harm := range harms() {
		for i, kind := range []pack.Kind{pack.Data, pack.Trees, pack.Data} {
			fresh := i == 2
			t.Run(fmt.Sprintf("%s %s, new cache %v", name, kind, fresh), func(t *testing.T) {
				p := kit.NewPruned(t, mem.New())
				p.Few = true
				p.Snapshot(1)
				kit.Written(t, p.Src, map[string]string{"large/list": string(testkit.Noise(5, 3_000_000)), "tiny": "tiny"})
				kit.Settle()
				out, _, err := p.Backup(p.SmallJob())
				require.NoError(t, err)
				p.Keep(out.ID)
				if fresh {
					p.Open.Cache.Dir = testkit.RamDir(t)
				}
				lost := 0
				for _, file := range packsOf(p, kind) {
					if lost++; lost%3 != 0 || kind == pack.Trees {
						harm(t, p.Store, file)
					}
				}
				require.NotZero(t, lost)
				dry := p.SmallJob()
				dry.Session.DryRun = true
				out, _, err = p.Backup(dry)
				require.NoError(t, err)
				require.NotZero(t, out.Mended)
				require.Zero(t, kit.Count(t, p.Store, store.Mark), "a dry run writes nothing")

				out, _, err = p.Backup(p.SmallJob())
				require.NoError(t, err)
				require.NotZero(t, out.Mended)
				require.Empty(t, p.Failures())
				require.Equal(t, 1, kit.Count(t, p.Store, store.Mark))
				requireNewestRestores(p, "healed")
				p.Keep(out.ID)

				kit.Settle()
				out, totals, err := p.Backup(p.SmallJob())
				require.NoError(t, err)
				require.Zero(t, out.Mended, "the parent obeyed the mark")
				require.Zero(t, totals.Bytes.Read)
				p.Keep(out.ID)

				for id := range p.Contents { // what the oldest snapshot alone held is lost
					if id != out.ID {
						p.Forget(id)
					}
				}
				_, err = p.Prune(kit.SmallPrune())
				require.NoError(t, err)
				require.Zero(t, kit.Count(t, p.Store, store.Mark))
				p.RequireWhole("after a prune")
				out, _, err = p.Backup(p.SmallJob())
				require.NoError(t, err)
				p.Keep(out.ID)
				require.Zero(t, kit.Count(t, p.Store, store.Mark))
				p.RequireWhole("after another backup")
			})
		}
	}
}

// checkAndRecord is what 'tidemark check --read-data' does.
func checkAndRecord(p *kit.Pruned) (found *check.Result) {
	p.T.Helper()
	require.NoError(p.T, p.With(func(r *repo.Repository) (err error) {
		opt := check.Options{ReadData: true, Scratch: p.T.TempDir(), Record: "test"}
		found, err = check.Run(context.Background(), r, opt, report.NewJob(report.Check, time.Now))
		return err
	}))
	return found
}

// restoreAndRecord is what 'tidemark restore' does about damage.
func restoreAndRecord(p *kit.Pruned) {
	p.T.Helper()
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
		require.NoError(p.T, err)
		l := report.NewJob(report.Restore, time.Now)
		res, err := restore.Run(context.Background(), r, restore.Selection{Tree: found.Snapshot.Tree, Sub: p.Src},
			kit.Target(filepath.Join(testkit.RamDir(p.T), "dst")), 2, l)
		var lost *repo.PackError
		packs := []format.ID(nil)
		switch {
		case err == nil:
			require.NotZero(p.T, l.Objects.Failed.Load())
			packs = res.Damaged
		case errors.As(err, &lost):
			packs = []format.ID{lost.Pack}
		}
		require.NotEmpty(p.T, packs)
		_, err = r.RecordDamage(context.Background(), "test", packs)
		return err
	}))
}

// TestBackupStoresDamagedPacksAgain: bits of packs have flipped, which leaves sizes unchanged. A check or a restore
// that finds this leaves a mark, and the next backup of an unchanged source stores the lost data again.
func TestBackupStoresDamagedPacksAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, kind := range []pack.Kind{pack.Data, pack.Trees} {
		for _, finder := range []string{"check", "restore"} {
			t.Run(fmt.Sprintf("%s, found by a %s", kind, finder), func(t *testing.T) {
				p := kit.NewPruned(t, mem.New())
				p.Few = true
				first := p.Snapshot(1)
				for _, name := range packsOf(p, kind) {
					data := kit.Load(t, p.Store, name)
					for at := 60; at < len(data); at += 1000 {
						data[at] ^= 1
					}
					require.NoError(t, p.Store.Put(context.Background(), name, data))
				}
				p.Open.Cache.Dir = copyOfCache(t, p.Open.Cache.Dir)
				if finder == "check" {
					require.False(t, checkAndRecord(p).OK())
				} else {
					restoreAndRecord(p)
				}
				require.Equal(t, 1, kit.Count(t, p.Store, store.Mark))
				kit.Settle()
				out, _, err := p.Backup(p.SmallJob())
				require.NoError(t, err)
				require.NotZero(t, out.Mended)
				p.Keep(out.ID)
				requireNewestRestores(p, "healed")
				p.Forget(first) // what lies above the source may have changed, which only this snapshot holds
				found := checkAndRecord(p)
				require.True(t, found.OK(), "all that the damaged packs held is elsewhere: %v", found.Problems)
				require.Equal(t, 1, kit.Count(t, p.Store, store.Mark), "what is known is not recorded again")
				_, err = p.Prune(kit.SmallPrune())
				require.NoError(t, err)
				require.Zero(t, kit.Count(t, p.Store, store.Mark))
				p.RequireWhole("after a prune")
			})
		}
	}
}

// packsOf returns the packs of a kind.
func packsOf(p *kit.Pruned, kind pack.Kind) (names []store.Name) {
	p.T.Helper()
	for info, err := range p.Store.List(context.Background(), store.Pack) {
		require.NoError(p.T, err)
		if info.Name.OfTrees() == (kind == pack.Trees) {
			names = append(names, info.Name)
		}
	}
	return sorted(names)
}

// requireNewestRestores restores the newest snapshot as another machine would and compares it with the source.
func requireNewestRestores(p *kit.Pruned, what string) {
	p.T.Helper()
	was := p.Open
	defer func() { p.Open = was }()
	p.Open.Cache.Dir, p.Open.Cache.Temporary = "", true
	dst := filepath.Join(testkit.RamDir(p.T), "dst")
	_, err := p.Restore(p.Src, kit.Target(dst))
	require.NoError(p.T, err, what)
	require.Empty(p.T, p.Failures(), what)
	kit.RequireSameFiles(p.T, p.Src, dst, what)
}

// TestRepairsOfFreshFilesAreCounted: files that were written too shortly before a backup are read again by the next
// one. If the repository had lost data of them, that is a repair.
func TestRepairsOfFreshFilesAreCounted(t *testing.T) {
	t.Parallel()
	e := kit.NewEngine(t, mem.New())
	src := filepath.Join(testkit.RamDir(t), "src")
	kit.Written(t, src, map[string]string{
		"one": string(testkit.Noise(1, 100_000)), "two": string(testkit.Noise(2, 100_000)),
	})
	kit.Settle()
	later := time.Now().Add(time.Minute) // a time that is not trusted
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Chtimes(filepath.Join(src, name), later, later))
	}
	job := e.Job(src)
	job.Source.Comparing.IgnoreCtime = true
	_, _, err := e.Backup(job)
	require.NoError(t, err)
	again := func() uint64 {
		out, _, err := e.Backup(job)
		require.NoError(t, err)
		return out.Mended
	}
	require.Zero(t, again(), "nothing is lost")
	for info, err := range e.Store.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		if !info.Name.OfTrees() {
			require.NoError(t, e.Store.Delete(t.Context(), info.Name))
		}
	}
	require.EqualValues(t, 2, again())
	require.Zero(t, again(), "it was repaired")
}
