package kit

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Pruned is a repository with snapshots known byte for byte: each is of a copy of the source that stays.
type Pruned struct {
	*Engine
	Src      string               // the path that is backed up
	Dir      string               // where the copies are
	Contents map[format.ID]string // snapshot -> copy of what it must restore
	Few      bool                 // a small source, for tests that do a lot with it
}

func NewPruned(t testing.TB, st store.Store) *Pruned {
	t.Helper()
	dir := testkit.RamDir(t)
	p := &Pruned{Engine: NewEngine(t, st), Src: filepath.Join(dir, "src"), Dir: dir, Contents: map[format.ID]string{}}
	require.NoError(t, os.MkdirAll(p.Src, 0o755))
	return p
}

// change makes the next version of the source: some files of a few folders are new, some change, some go.
func (p *Pruned) change(seed uint64) {
	p.T.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	files := 12
	if p.Few {
		files = 4
	}
	for range files {
		path := filepath.Join(p.Src, fmt.Sprintf("d%d", rng.IntN(4)), fmt.Sprintf("f%d", rng.IntN(12)))
		require.NoError(p.T, os.MkdirAll(filepath.Dir(path), 0o755))
		if rng.IntN(4) == 0 {
			_ = os.Remove(path)
			continue
		}
		require.NoError(p.T, os.WriteFile(path, testkit.Noise(rng.Uint64N(40), 200+rng.IntN(40_000)), 0o644))
	}
	big := filepath.Join(p.Src, "big")
	require.NoError(p.T, os.WriteFile(big, testkit.Noise(seed%3, 300_000), 0o644))
	Settle()
}

// SmallJob makes many small packs.
func (p *Pruned) SmallJob() backup.Job {
	job := p.Job(p.Src)
	job.Session.Tuning.DataPack, job.Session.Tuning.TreePack, job.Session.Tuning.Segment = 64<<10, 8<<10, 3
	job.Session.Tuning.Frame = 16 << 10
	return job
}

// Keep notes what a snapshot of the source as it is now must restore.
func (p *Pruned) Keep(id format.ID) {
	p.T.Helper()
	copied, err := os.MkdirTemp(p.Dir, "copy")
	require.NoError(p.T, err)
	require.NoError(p.T, os.CopyFS(copied, os.DirFS(p.Src)))
	p.Contents[id] = copied
}

func (p *Pruned) Snapshot(seed uint64) format.ID {
	p.T.Helper()
	p.change(seed)
	out, _, err := p.Backup(p.SmallJob())
	require.NoError(p.T, err)
	p.Keep(out.ID)
	return out.ID
}

// Copied is the same repository once more, in memory, for a machine that has no cache of it.
func (p *Pruned) Copied(t *testing.T) *Pruned {
	t.Helper()
	copied := p.Elsewhere(CopyOf(t, p.Store))
	copied.T, copied.Contents = t, maps.Clone(p.Contents)
	return copied
}

// Elsewhere is the same repository on another machine, which reaches it by st and has no cache of it.
func (p *Pruned) Elsewhere(st store.Store) *Pruned {
	p.T.Helper()
	e := &Engine{T: p.T, Store: st, Parallel: p.Parallel, Open: p.Open}
	e.Open.Cache.Dir = testkit.RamDir(p.T)
	return &Pruned{Engine: e, Src: p.Src, Dir: p.Dir, Contents: p.Contents}
}

// PruneTwice prunes as two other machines do: the first puts a mark, the second removes the packs. It may be called in
// any goroutine.
func (p *Pruned) PruneTwice(st store.Store, when string) {
	p.T.Helper()
	for range 2 {
		if _, err := p.Elsewhere(st).Prune(SmallPrune()); err != nil {
			p.T.Errorf("prune %s: %v", when, err)
		}
	}
}

func CopyOf(t *testing.T, st store.Store) store.Store {
	t.Helper()
	copied := mem.New()
	for _, name := range EveryFile(t, st) {
		require.NoError(t, copied.Put(context.Background(), name, Load(t, st, name)))
	}
	return copied
}

func (p *Pruned) Forget(ids ...format.ID) {
	p.T.Helper()
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		list := make([]repo.Listed, len(ids))
		for i, id := range ids {
			list[i].ID = id
			delete(p.Contents, id)
		}
		_, _, err := forget.Drop(context.Background(), r, list)
		return err
	}))
}

func SmallPrune() prune.Options {
	opt := prune.Options{MaxUnused: prune.Limit{Percent: 5}}
	opt.Tuning.DataPack, opt.Tuning.TreePack, opt.Tuning.Segment = 64<<10, 8<<10, 3
	opt.Tuning.Frame = 16 << 10
	return opt
}

func (p *Pruned) Prune(opt prune.Options) (res *prune.Result, err error) {
	p.T.Helper()
	err = p.With(func(r *repo.Repository) error {
		res, err = prune.Run(context.Background(), r, opt)
		return err
	})
	return res, err
}

// RequireWhole requires that a check which reads everything finds nothing, and that all snapshots come back exactly,
// with this machine's cache and with none.
func (p *Pruned) RequireWhole(what string) {
	p.T.Helper()
	p.RequireSound()
	p.RequireRestorable(what, false)
	p.RequireRestorable(what, true)
}

// RequireRestorable restores all snapshots, with the cache of this machine or as another machine.
func (p *Pruned) RequireRestorable(what string, fresh bool) {
	p.T.Helper()
	was := p.Open
	defer func() { p.Open = was }()
	if fresh {
		p.Open.Cache.Dir, p.Open.Cache.Temporary = "", true
	}
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.NoError(p.T, err)
		require.Len(p.T, listed, len(p.Contents), what)
		for _, l := range listed {
			require.NoError(p.T, l.Err)
			p.requireExactly(r, l, what)
		}
		return nil
	}))
}

func (p *Pruned) requireExactly(r *repo.Repository, l repo.Listed, what string) {
	p.T.Helper()
	dst, err := os.MkdirTemp(p.Dir, "out")
	require.NoError(p.T, err)
	ledger := report.NewJob(report.Restore, time.Now)
	_, err = restore.Run(context.Background(), r, restore.Selection{Tree: l.Snapshot.Tree, Sub: p.Src},
		restore.Target{Path: filepath.Join(dst, "x")}, 2, ledger)
	require.NoError(p.T, err, what)
	require.Empty(p.T, ledger.Issues(), what)
	RequireSameFiles(p.T, p.Contents[l.ID], filepath.Join(dst, "x"), what)
	require.NoError(p.T, os.RemoveAll(dst))
}

// RequireSameFiles compares names and contents.
func RequireSameFiles(t testing.TB, want, got, what string) {
	t.Helper()
	contents := func(root string) map[string]string {
		all := map[string]string{}
		require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, path)
			if d.IsDir() {
				all[rel] = "dir"
				return nil
			}
			data, err := os.ReadFile(path)
			all[rel] = string(data)
			return err
		}))
		return all
	}
	a, b := contents(want), contents(got)
	require.Len(t, b, len(a), what)
	for name := range a {
		require.True(t, a[name] == b[name], "%s: %s differs", what, name)
	}
}

func BytesOf(t testing.TB, st store.Store, kind store.Kind) (n int64) {
	t.Helper()
	for info, err := range st.List(context.Background(), kind) {
		require.NoError(t, err)
		n += info.Size
	}
	return n
}

// EndLeases is what time does to the leases of those that died.
func (p *Pruned) EndLeases() {
	p.T.Helper()
	var names []store.Name
	for info, err := range p.Store.List(context.Background(), store.Lease) {
		require.NoError(p.T, err)
		names = append(names, info.Name)
	}
	for _, name := range names {
		require.NoError(p.T, p.Store.Delete(context.Background(), name))
	}
}
