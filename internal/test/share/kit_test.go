package share

import (
	"context"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// folder is where the repository lies on the share.
const folder = "Home Backups/tidemark"

// at is the folder of the repository on a server.
func at(s *smbtest.Server) smb.Target {
	return smb.Target{User: s.User, Host: s.Host, Port: s.Port, Share: smbtest.Share, Path: folder}
}

// through is the same by way of a proxy.
func through(p *smbtest.Proxy, s *smbtest.Server) smb.Target {
	to := at(s)
	to.Port = p.Port
	return to
}

// connect begins a store with the password. The first connection is tried again: a store has no patience with it, and
// a busy server may need more than the short time of a test.
func connect(t testing.TB, to smb.Target, o smb.Options,
	begin func(context.Context, smb.Target, smb.Options) (*smb.Store, error),
) *smb.Store {
	t.Helper()
	o.Credentials = func(context.Context) (smb.Secret, error) { return smb.Secret{Password: smbtest.Password}, nil }
	var st *smb.Store
	var err error
	for range 10 {
		if st, err = begin(t.Context(), to, o); !errors.Is(err, store.ErrGone) {
			break
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// machine is a computer that backs up to a share: its store, its cache, and the acknowledgements it received.
type machine struct {
	*kit.Engine
	server *smbtest.Server
	st     *witness // its Store
	host   string
}

// newMachine makes a repository, and is the first computer to use it.
func newMachine(t testing.TB, s *smbtest.Server, to smb.Target, o smb.Options) *machine {
	t.Helper()
	st := &witness{
		Store: connect(t, to, o, smb.Create), disk: filepath.Join(s.Folder, filepath.FromSlash(folder)),
	}
	m := &machine{Engine: kit.NewEngine(t, st), server: s, st: st, host: "one"}
	require.NoError(t, m.With(func(r *repo.Repository) error { st.keys = r.Keys(); return nil }))
	return m
}

// another is a computer with a cache and sessions of its own, which goes to the server directly.
func (m *machine) another(host string, o smb.Options) *machine {
	m.T.Helper()
	st := &witness{Store: connect(m.T, at(m.server), o, smb.Open), keys: m.st.keys, disk: m.st.disk}
	return &machine{server: m.server, st: st, host: host, Engine: &kit.Engine{
		T: m.T, Store: st, Open: kit.OpenOptions(testkit.RamDir(m.T)), Parallel: m.Parallel,
	}}
}

// job is a backup of one directory in small packs, so that there are many moments in it.
func (m *machine) job(dir string) backup.Job {
	m.T.Helper()
	job := m.Job(dir)
	job.Label.Host = m.host
	tune := &job.Session.Tuning
	tune.DataPack, tune.TreePack, tune.Segment, tune.Frame = packSize, packSize/4, segment, packSize/4
	return job
}

// The sizes of a job: bytes of a pack of data, and packs per index segment.
const (
	packSize = 128 << 10
	segment  = 4
)

// requireBackup makes a snapshot of everything.
func (m *machine) requireBackup(job backup.Job) (*backup.Outcome, report.Totals) {
	m.T.Helper()
	out, totals, err := m.BackupCtx(m.T.Context(), job)
	require.NoError(m.T, err)
	require.Zero(m.T, totals.Failures)
	require.False(m.T, out.Failed)
	return out, totals
}

// requireRestored restores dir of this host's newest snapshot and compares every byte and attribute with the original.
func (m *machine) requireRestored(dir string) {
	m.T.Helper()
	dst := filepath.Join(testkit.RamDir(m.T), "out")
	l := report.NewJob(report.Restore, time.Now)
	require.NoError(m.T, m.With(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(m.T.Context(), repo.Latest, repo.Filter{Hosts: []string{m.host}})
		if err != nil {
			return err
		}
		what := restore.Selection{Tree: found.Snapshot.Tree, Sub: dir}
		_, err = restore.Run(m.T.Context(), r, what, restore.Target{Path: dst, Verify: true}, 2, l)
		return err
	}))
	require.Empty(m.T, l.Issues())
	require.Empty(m.T, testkit.Compare(m.T.Context(), dir, dst, testkit.CompareOptions{}))
}

// requireSound checks the repository at the end of a test from another computer: a check finds nothing, all
// acknowledged files exist, all files named by an index are whole, and dir restores.
func (m *machine) requireSound(dir string) {
	m.T.Helper()
	fresh := m.another(m.host, smb.Options{})
	fresh.RequireSound()
	m.st.requireKept(m.T, fresh.st.Store)
	requireNamedWhole(m.T, m.st.keys, fresh.st.Store)
	fresh.requireRestored(dir)
}

// requireListed requires that snapshots which were reported exist.
func (m *machine) requireListed(all ...*backup.Outcome) {
	m.T.Helper()
	fresh := m.another(m.host, smb.Options{})
	for _, out := range all {
		require.NoError(m.T, fresh.With(func(r *repo.Repository) error {
			_, err := r.FindSnapshot(m.T.Context(), out.ID.String(), repo.Filter{})
			return err
		}), "a snapshot that was reported is gone")
	}
}

// written makes files of the given size, which do not compress: the same for the same seed, name and size.
func written(t testing.TB, dir string, seed uint64, sizes map[string]int) {
	t.Helper()
	for name, size := range sizes {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // never fails
		require.NoError(t, os.WriteFile(path, testkit.Noise(seed^h.Sum64()^uint64(size), size), 0o644))
	}
}

// leftovers are the temporary files below a folder of the server.
func leftovers(t testing.TB, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(strings.ToLower(filepath.Base(path)), store.TempPrefix) {
			all = append(all, path)
		}
		return err
	}))
	return all
}
