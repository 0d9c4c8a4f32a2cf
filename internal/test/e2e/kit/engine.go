package kit

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func Parallel(scanners, readers, workers int) backup.Parallel {
	return backup.Parallel{Scanners: scanners, Readers: backup.Range{Start: readers},
		Compressors: backup.Range{Start: workers}}
}

// Engine is a repository with everything a test does to it.
type Engine struct {
	T        testing.TB
	Store    store.Store
	Open     repo.OpenOptions
	Parallel backup.Parallel

	Ledger *report.Ledger // of the last job
}

func Passphrase() repo.Secret {
	return repo.Secret{Method: keyfile.Passphrase, Value: []byte("correct horse")}
}

func OpenOptions(cache string) repo.OpenOptions {
	return repo.OpenOptions{Unlock: stored.UnlockWith(Passphrase()), Cache: repo.CacheOptions{Dir: cache}}
}

// NewEngine makes a repository in st, or in memory.
func NewEngine(t testing.TB, st store.Store) *Engine {
	t.Helper()
	if st == nil {
		st = mem.New()
	}
	secret := Passphrase()
	e := &Engine{
		T: t, Store: st, Parallel: Parallel(2, 2, 2),
		Open: OpenOptions(testkit.RamDir(t)),
	}
	r, _, err := repo.Init(context.Background(), st, repo.InitOptions{
		Secrets: []repo.Secret{secret}, Params: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}, Label: "test",
		Open: e.Open,
	})
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return e
}

// With opens the repository for the time of fn.
func (e *Engine) With(fn func(r *repo.Repository) error) error {
	e.T.Helper()
	r, err := repo.Open(context.Background(), e.Store, e.Open)
	if err != nil {
		return err
	}
	err = fn(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return err
}

// Job is a backup of one directory by its absolute path.
func (e *Engine) Job(dir string) backup.Job {
	e.T.Helper()
	pick, err := scan.Sources([]string{dir})
	require.NoError(e.T, err)
	return backup.Job{
		Label: backup.Label{Host: "test", Sources: []string{dir}},
		Source: backup.Source{
			Root: pick, Rules: rules.NewBuilder().Compile(), Reading: backup.Reading{Retries: 4},
		},
		Parallel: e.Parallel,
	}
}

// Backup makes a snapshot of dir.
func (e *Engine) Backup(job backup.Job) (out *backup.Outcome, totals report.Totals, err error) {
	e.T.Helper()
	return e.BackupCtx(context.Background(), job)
}

func (e *Engine) BackupCtx(ctx context.Context, job backup.Job) (out *backup.Outcome, totals report.Totals, err error) {
	e.T.Helper()
	e.Ledger = report.New(time.Now)
	err = e.With(func(r *repo.Repository) error {
		out, err = backup.Run(ctx, r, job, e.Ledger)
		return err
	})
	return out, e.Ledger.Snapshot(), err
}

// Subtree returns the tree of dir in a snapshot: what lies above dir, such as /tmp, changes all the time.
func (e *Engine) Subtree(out *backup.Outcome, dir string) (root format.ID) {
	e.T.Helper()
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
		root = out.Snapshot.Tree
		for _, name := range strings.Split(strings.Trim(dir, "/"), "/") {
			n, err := tree.Lookup(context.Background(), r.LoadBlob, root, name)
			require.NoError(e.T, err)
			require.NotNil(e.T, n)
			root = n.Subtree
		}
		return nil
	}))
	return root
}

// Restore restores dir of the newest snapshot to a target and returns the totals of its ledger.
func (e *Engine) Restore(dir string, to restore.Target) (totals report.Totals, err error) {
	e.T.Helper()
	err = e.RestoreCtx(context.Background(), dir, to)
	return e.Ledger.Snapshot(), err
}

func (e *Engine) RestoreCtx(ctx context.Context, dir string, to restore.Target) error {
	e.T.Helper()
	return e.RestorePart(ctx, restore.Selection{Sub: dir}, to)
}

// RestorePart restores a selection of the newest snapshot.
func (e *Engine) RestorePart(ctx context.Context, sel restore.Selection, to restore.Target) error {
	e.T.Helper()
	e.Ledger = report.NewJob(report.Restore, time.Now)
	return e.With(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(ctx, repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		sel.Tree, sel.Sources = found.Snapshot.Tree, found.Snapshot.Sources
		_, err = restore.Run(ctx, r, sel, to, 2, e.Ledger)
		return err
	})
}

// RequireRestored restores dir and compares every byte and attribute with the original.
func (e *Engine) RequireRestored(dir string) {
	e.T.Helper()
	dst := filepath.Join(testkit.RamDirBeside(e.T, dir), "out")
	totals, err := e.Restore(dir, restore.Target{Path: dst, Verify: true})
	require.NoError(e.T, err)
	require.Zero(e.T, totals.Failures)
	require.Empty(e.T, testkit.Compare(context.Background(), dir, dst, testkit.CompareOptions{}))
}

// Settle waits until the timestamps of files just made are old enough to be trusted.
func Settle() { time.Sleep(60 * time.Millisecond) }
