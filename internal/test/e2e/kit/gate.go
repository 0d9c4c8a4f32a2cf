package kit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Guarded is an engine with the source, the repository, and the local state behind gates.
type Guarded struct {
	*Engine
	Client                *iopolicy.Client
	Source, Target, Cache *iopolicy.Gate
	Src                   string
}

// BehindGates makes files and a repository on the disk that temporary files lie on.
func BehindGates(t *testing.T, files map[string]int) *Guarded {
	t.Helper()
	dir := t.TempDir()
	g := &Guarded{Client: iopolicy.NewClient(iopolicy.Throttle), Src: filepath.Join(dir, "src")}
	for name, to := range map[string]**iopolicy.Gate{"source": &g.Source, "target": &g.Target, "cache": &g.Cache} {
		*to = iopolicy.New(iopolicy.Config{Name: name, Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	}
	for name, size := range files {
		path := filepath.Join(g.Src, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		f, err := os.Create(path)
		require.NoError(t, err)
		_, err = f.Write(testkit.Noise(uint64(len(name)*1000+size), size))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, Forget(f)) // so that reading it is I/O
		require.NoError(t, f.Close())
	}
	st, err := local.Create(filepath.Join(dir, "repo"), g.Target.Pass(g.Client))
	require.NoError(t, err)
	g.Engine = NewEngine(t, st)
	g.Open = OpenOptions(filepath.Join(dir, "cache"))
	g.Open.Cache.TreeFrames = 64 << 20
	g.Open.Gate = g.To(g.Cache)
	return g
}

// To is the same way wherever one asks.
func (g *Guarded) To(gate *iopolicy.Gate) localfs.Gates {
	pass := gate.Pass(g.Client)
	return func(*localfs.Dir, string) *iopolicy.Pass { return pass }
}

func (g *Guarded) Job() backup.Job {
	job := g.Engine.Job(g.Src)
	job.Source.Gate = g.To(g.Source)
	return job
}

// During opens the repository with ctx for the time of fn: unlike engine.with, so that the caches are cancelled too.
func (g *Guarded) During(ctx context.Context, fn func(r *repo.Repository) error) error {
	r, err := repo.Open(ctx, g.Store, g.Open)
	if err != nil {
		return err
	}
	return errors.Join(fn(r), r.Close())
}

func (g *Guarded) MakeBackup(ctx context.Context, job backup.Job) error {
	g.Ledger = report.New(time.Now)
	return g.During(ctx, func(r *repo.Repository) error {
		_, err := backup.Run(ctx, r, job, g.Ledger)
		return err
	})
}
