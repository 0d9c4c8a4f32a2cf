// Package enginetest holds the tests of the engine as a whole: backup, restore and check together, on real file systems.
package enginetest

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func parallel(scanners, readers, workers int) backup.Parallel {
	return backup.Parallel{Scanners: scanners, Readers: backup.Range{Start: readers}, Workers: backup.Range{Start: workers}}
}

// engine is a repository with everything a test does to it.
type engine struct {
	t    testing.TB
	st   store.Store
	open repo.OpenOptions
	par  backup.Parallel

	ledger *report.Ledger // of the last job
}

func passphrase() repo.Secret {
	return repo.Secret{Method: keyfile.Passphrase, Value: []byte("correct horse")}
}

func openOptions(cache string) repo.OpenOptions {
	return repo.OpenOptions{Unlock: repo.UnlockWith(passphrase()), CacheDir: cache}
}

// newEngine makes a repository in st, or in memory.
func newEngine(t testing.TB, st store.Store) *engine {
	t.Helper()
	if st == nil {
		st = mem.New()
	}
	secret := passphrase()
	e := &engine{
		t: t, st: st, par: parallel(2, 2, 2),
		open: openOptions(ramDir(t)),
	}
	p := chunker.DefaultParams()
	r, _, err := repo.Init(context.Background(), st, repo.InitOptions{
		Secrets: []repo.Secret{secret}, Params: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}, Label: "test",
		Chunker: config.Chunker{Algorithm: 1, Min: p.Min, Avg: p.Avg, Max: p.Max}, Open: e.open,
	})
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return e
}

// with opens the repository for the time of fn.
func (e *engine) with(fn func(r *repo.Repository) error) error {
	e.t.Helper()
	r, err := repo.Open(context.Background(), e.st, e.open)
	if err != nil {
		return err
	}
	err = fn(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return err
}

// job is a backup of one directory by its absolute path.
func (e *engine) job(dir string) backup.Job {
	e.t.Helper()
	pick, err := scan.Sources([]string{dir})
	require.NoError(e.t, err)
	return backup.Job{
		Label: backup.Label{Host: "test", Sources: []string{dir}},
		Source: backup.Source{
			Root: pick, Rules: rules.NewBuilder().Compile(), Reading: backup.Reading{Retries: 4},
		},
		Parallel: e.par,
	}
}

// backup makes a snapshot of dir.
func (e *engine) backup(job backup.Job) (out *backup.Outcome, totals report.Totals, err error) {
	e.t.Helper()
	return e.backupCtx(context.Background(), job)
}

func (e *engine) backupCtx(ctx context.Context, job backup.Job) (out *backup.Outcome, totals report.Totals, err error) {
	e.t.Helper()
	e.ledger = report.New(time.Now)
	err = e.with(func(r *repo.Repository) error {
		out, err = backup.Make(ctx, r, job, e.ledger)
		return err
	})
	return out, e.ledger.Snapshot(), err
}

// subtree returns the tree of dir in a snapshot: what lies above dir, such as /tmp, changes all the time.
func (e *engine) subtree(out *backup.Outcome, dir string) (root format.ID) {
	e.t.Helper()
	require.NoError(e.t, e.with(func(r *repo.Repository) error {
		root = out.Snapshot.Tree
		for _, name := range strings.Split(strings.Trim(dir, "/"), "/") {
			n, err := tree.Lookup(context.Background(), r.LoadBlob, root, name)
			require.NoError(e.t, err)
			require.NotNil(e.t, n)
			root = n.Subtree
		}
		return nil
	}))
	return root
}

// restore brings dir of the newest snapshot back to a target and returns what its ledger says.
func (e *engine) restore(dir string, to restore.Target) (totals report.Totals, err error) {
	e.t.Helper()
	err = e.restoreCtx(context.Background(), dir, to)
	return e.ledger.Snapshot(), err
}

func (e *engine) restoreCtx(ctx context.Context, dir string, to restore.Target) error {
	e.t.Helper()
	return e.restorePart(ctx, restore.Selection{Sub: dir}, to)
}

// restorePart restores a selection of the newest snapshot.
func (e *engine) restorePart(ctx context.Context, sel restore.Selection, to restore.Target) error {
	e.t.Helper()
	e.ledger = report.NewJob(report.Restore, time.Now)
	return e.with(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(ctx, repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		sel.Tree, sel.Sources = found.Snapshot.Tree, found.Snapshot.Sources
		_, err = restore.Run(ctx, r, sel, to, restore.Parallel{Workers: 2}, e.ledger)
		return err
	})
}

// requireRestored restores dir and compares every byte and attribute with the original.
func (e *engine) requireRestored(dir string) {
	e.t.Helper()
	dst := filepath.Join(besides(e.t, dir), "out")
	totals, err := e.restore(dir, restore.Target{Path: dst, Verify: true})
	require.NoError(e.t, err)
	require.Zero(e.t, totals.Failures)
	require.Empty(e.t, testkit.Compare(context.Background(), dir, dst, testkit.CompareOptions{}))
}

// settle waits until the timestamps of files just made are old enough to be trusted.
func settle() { time.Sleep(60 * time.Millisecond) }
