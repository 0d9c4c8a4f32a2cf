package stages

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/bench/corpus"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	tinyScale = 0.005 // of a million files
	largeFile = 48 << 20
)

// dataDir is where the data of all benchmarks of a process lies; a child uses that of its parent.
func dataDir(tb testing.TB) string {
	if dir := os.Getenv(dataVariable); dir != "" {
		return dir
	}
	dir, err := os.MkdirTemp("", "tidemark-stages-")
	require.NoError(tb, err)
	require.NoError(tb, os.Setenv(dataVariable, dir)) // TestMain removes it
	return dir
}

func TestMain(m *testing.M) {
	inherited := os.Getenv(dataVariable) != ""
	code := m.Run()
	if dir := os.Getenv(dataVariable); dir != "" && !inherited {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// tiny returns the tree of tiny files.
func tiny(tb testing.TB) *corpus.Set {
	set, err := corpus.Make(tb.Context(), filepath.Join(dataDir(tb), "tiny"),
		corpus.Spec{Kind: corpus.Tiny, Seed: 1, Scale: tinyScale})
	require.NoError(tb, err)
	return set
}

// large returns a folder with one file of each kind of content.
func large(tb testing.TB) (dir string, size int64) {
	dir = filepath.Join(dataDir(tb), "large")
	files := map[string]func(seed uint64,
		n int) []byte{"text": corpus.Text, "machine": corpus.Machine, "noise": corpus.Noise}
	if _, err := os.Stat(dir); err == nil {
		return dir, int64(len(files)) * largeFile
	}
	require.NoError(tb, os.Mkdir(dir, 0o755))
	for name, make := range files {
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), make(1, largeFile), 0o644))
	}
	return dir, int64(len(files)) * largeFile
}

// engine is a repository in a folder, with gates that count: of the source, of the repository, and of the local caches.
type engine struct {
	tb     testing.TB
	dir    string
	store  *local.Store
	open   repo.OpenOptions
	gates  gates
	ledger *report.Ledger // of the last job
}

type gates struct{ source, target, cache *iopolicy.Gate }

func newGate(name string) *iopolicy.Gate { return iopolicy.New(iopolicy.Config{Name: name}) }

func pass(g *iopolicy.Gate) *iopolicy.Pass { return g.Pass(iopolicy.NewClient(iopolicy.Important)) }

func through(g *iopolicy.Gate) localfs.Gates {
	p := pass(g)
	return func(*localfs.Dir, string) *iopolicy.Pass { return p }
}

// newEngine makes an empty repository.
func newEngine(tb testing.TB) *engine {
	dir, err := os.MkdirTemp(dataDir(tb), "repo-")
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	e := &engine{tb: tb, dir: dir, gates: gates{newGate("source"), newGate("target"), newGate("cache")}}
	e.store, err = local.Create(filepath.Join(dir, "repo"), pass(e.gates.target))
	require.NoError(tb, err)
	secret := repo.Secret{Method: keyfile.KeyFile, Value: bytes.Repeat([]byte{7}, 32)}
	e.open = repo.OpenOptions{
		Unlock: stored.UnlockWith(secret), Cache: repo.CacheOptions{Dir: filepath.Join(dir, "cache")},
		Gate: through(e.gates.cache),
	}
	r, _, err := repo.Init(context.Background(), e.store, repo.InitOptions{
		Secrets: []repo.Secret{secret},
		Open:    e.open,
	})
	require.NoError(tb, err)
	require.NoError(tb, r.Close())
	return e
}

// with opens the repository for the time of fn.
func (e *engine) with(fn func(r *repo.Repository) error) {
	e.tb.Helper()
	r, err := repo.Open(context.Background(), e.store, e.open)
	require.NoError(e.tb, err)
	require.NoError(e.tb, fn(r))
	require.NoError(e.tb, r.Close())
}

// backup makes a snapshot.
func (e *engine) backup(root string) {
	e.tb.Helper()
	pick, err := scan.Sources([]string{root})
	require.NoError(e.tb, err)
	e.ledger = report.New(time.Now)
	job := backup.Job{
		Label: backup.Label{Host: "bench", Sources: []string{root}},
		Source: backup.Source{
			Root: pick, Rules: rules.NewBuilder().Compile(), Reading: backup.Reading{Retries: 4}, Gate: through(e.gates.source),
		},
		Parallel: backup.Parallel{Scanners: 4, Readers: backup.Range{Start: 2}, Compressors: backup.Range{Start: 2}},
	}
	e.with(func(r *repo.Repository) error {
		_, err := backup.Run(context.Background(), r, job, e.ledger)
		return err
	})
	require.Zero(e.tb, e.ledger.Snapshot().Failures)
}

// restore brings the newest snapshot back to a folder that is not there.
func (e *engine) restore(to string) {
	e.tb.Helper()
	e.ledger = report.NewJob(report.Restore, time.Now)
	e.with(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		target := restore.Target{Path: to, Gate: through(e.gates.source)}
		_, err = restore.Run(context.Background(), r, restore.Selection{Tree: found.Snapshot.Tree}, target,
			2, e.ledger)
		return err
	})
	require.Zero(e.tb, e.ledger.Snapshot().Failures)
}

// check reads everything back.
func (e *engine) check() {
	e.tb.Helper()
	e.ledger = report.NewJob(report.Check, time.Now)
	e.with(func(r *repo.Repository) error {
		found, err := check.Run(context.Background(), r, check.Options{ReadData: true, Scratch: e.dir}, e.ledger)
		if err == nil {
			require.Empty(e.tb, found.Problems)
		}
		return err
	})
}

// moved is what has passed the gates so far.
type moved struct{ source, target, cache iopolicy.Stats }

func (e *engine) moved() moved {
	return moved{e.gates.source.Stats(), e.gates.target.Stats(), e.gates.cache.Stats()}
}

// operations reports what has passed the gates since an earlier moment.
func (e *engine) operations(since moved, objects int, m metrics) {
	now, per := e.moved(), float64(objects)
	m(float64(now.source.Operations-since.source.Operations)/per, "source-ops/obj")
	m(float64(now.target.Operations-since.target.Operations)/per, "target-ops/obj")
}
