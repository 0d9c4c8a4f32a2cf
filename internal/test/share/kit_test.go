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
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
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
	t      testing.TB
	server *smbtest.Server
	st     *witness
	open   repo.OpenOptions
	host   string

	ledger *report.Ledger // of the last job
}

func passphrase() repo.Secret {
	return repo.Secret{Method: keyfile.Passphrase, Value: []byte("correct horse")}
}

// newMachine makes a repository, and is the first computer to use it.
func newMachine(t testing.TB, s *smbtest.Server, to smb.Target, o smb.Options) *machine {
	t.Helper()
	m := &machine{t: t, server: s, host: "one", st: &witness{
		Store: connect(t, to, o, smb.Create), disk: filepath.Join(s.Folder, filepath.FromSlash(folder)),
	}}
	m.open = repo.OpenOptions{Unlock: repo.UnlockWith(passphrase()), Cache: repo.CacheOptions{Dir: testkit.RamDir(t)}}
	r, _, err := repo.Init(t.Context(), m.st, repo.InitOptions{
		Secrets: []repo.Secret{passphrase()}, Params: keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}, Label: "test",
		Open: m.open,
	})
	require.NoError(t, err)
	m.st.keys = r.Keys()
	require.NoError(t, r.Close())
	return m
}

// another is a computer with a cache and sessions of its own, which goes to the server directly.
func (m *machine) another(host string, o smb.Options) *machine {
	m.t.Helper()
	other := &machine{t: m.t, server: m.server, host: host, st: &witness{
		Store: connect(m.t, at(m.server), o, smb.Open), keys: m.st.keys, disk: m.st.disk,
	}}
	cache := repo.CacheOptions{Dir: testkit.RamDir(m.t)}
	other.open = repo.OpenOptions{Unlock: repo.UnlockWith(passphrase()), Cache: cache}
	return other
}

// with opens the repository for the time of fn.
func (m *machine) with(fn func(r *repo.Repository) error) error {
	r, err := repo.Open(context.Background(), m.st, m.open)
	if err != nil {
		return err
	}
	err = fn(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return err
}

// job is a backup of one directory in small packs, so that there are many moments in it.
func (m *machine) job(dir string) backup.Job {
	m.t.Helper()
	pick, err := scan.Sources([]string{dir})
	require.NoError(m.t, err)
	job := backup.Job{
		Label:    backup.Label{Host: m.host, Sources: []string{dir}},
		Source:   backup.Source{Root: pick, Rules: rules.NewBuilder().Compile(), Reading: backup.Reading{Retries: 4}},
		Parallel: backup.Parallel{Scanners: 2, Readers: backup.Range{Start: 2}, Compressors: backup.Range{Start: 2}},
	}
	tune := &job.Session.Tuning
	tune.DataPack, tune.TreePack, tune.Segment, tune.Frame = packSize, packSize/4, segment, packSize/4
	return job
}

// The sizes of a job: bytes of a pack of data, and packs per index segment.
const (
	packSize = 128 << 10
	segment  = 4
)

// backup makes a snapshot. It may be called from any goroutine.
func (m *machine) backup(ctx context.Context, job backup.Job) (out *backup.Outcome, totals report.Totals, err error) {
	m.ledger = report.New(time.Now)
	err = m.with(func(r *repo.Repository) error {
		out, err = backup.Run(ctx, r, job, m.ledger)
		return err
	})
	return out, m.ledger.Snapshot(), err
}

// requireBackup makes a snapshot of everything.
func (m *machine) requireBackup(job backup.Job) (*backup.Outcome, report.Totals) {
	m.t.Helper()
	out, totals, err := m.backup(m.t.Context(), job)
	require.NoError(m.t, err)
	require.Zero(m.t, totals.Failures)
	require.False(m.t, out.Failed)
	return out, totals
}

// requireRestored restores dir of this host's newest snapshot and compares every byte and attribute with the original.
func (m *machine) requireRestored(dir string) {
	m.t.Helper()
	dst := filepath.Join(testkit.RamDir(m.t), "out")
	l := report.NewJob(report.Restore, time.Now)
	require.NoError(m.t, m.with(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(m.t.Context(), repo.Latest, repo.Filter{Hosts: []string{m.host}})
		if err != nil {
			return err
		}
		what := restore.Selection{Tree: found.Snapshot.Tree, Sub: dir}
		_, err = restore.Run(m.t.Context(), r, what, restore.Target{Path: dst, Verify: true}, 2, l)
		return err
	}))
	require.Empty(m.t, l.Issues())
	require.Empty(m.t, testkit.Compare(m.t.Context(), dir, dst, testkit.CompareOptions{}))
}

// check reads everything back and returns the findings.
func (m *machine) check() *check.Result {
	m.t.Helper()
	var found *check.Result
	require.NoError(m.t, m.with(func(r *repo.Repository) (err error) {
		l := report.NewJob(report.Check, time.Now)
		found, err = check.Run(m.t.Context(), r, check.Options{ReadData: true, Scratch: testkit.RamDir(m.t)}, l)
		return err
	}))
	return found
}

// requireSound checks the repository at the end of a test from another computer: a check finds nothing, all
// acknowledged files exist, all files named by an index are whole, and dir restores.
func (m *machine) requireSound(dir string) {
	m.t.Helper()
	fresh := m.another(m.host, smb.Options{})
	for _, p := range fresh.check().Problems {
		m.t.Errorf("check: %s: %v", p.Object, p.Err)
	}
	m.st.requireKept(m.t, fresh.st.Store)
	requireNamedWhole(m.t, m.st.keys, fresh.st.Store)
	fresh.requireRestored(dir)
}

// requireListed requires that snapshots which were reported exist.
func (m *machine) requireListed(all ...*backup.Outcome) {
	m.t.Helper()
	fresh := m.another(m.host, smb.Options{})
	for _, out := range all {
		require.NoError(m.t, fresh.with(func(r *repo.Repository) error {
			_, err := r.FindSnapshot(m.t.Context(), out.ID.String(), repo.Filter{})
			return err
		}), "a snapshot that was reported is gone")
	}
}

// settle waits until the timestamps of files just made are old enough to be trusted.
func settle() { time.Sleep(60 * time.Millisecond) }

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
		if strings.HasPrefix(strings.ToLower(filepath.Base(path)), smb.TempPrefix) {
			all = append(all, path)
		}
		return err
	}))
	return all
}
