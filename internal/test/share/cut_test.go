package share

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// moment is a point of a backup: when the Put of a pack begins, plus a number of messages to the server after that.
type moment struct{ pack, messages int }

func (m moment) String() string { return fmt.Sprintf("pack %d, message %d", m.pack, m.messages) }

// moments calls fn with seeded moments of a backup of the given number of packs: one, few in a long run, and others
// for as long as the flag -soak sets. Each is a subtest; they run at the same time, but for those of a soak.
func moments(t *testing.T, seed uint64, few, packs int, fn func(t *testing.T, m moment)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	next := func() moment { return moment{pack: 3 + rng.IntN(packs*3/4), messages: rng.IntN(12)} }
	for i := range testkit.Rounds(1, 1, few) {
		m := next()
		t.Run(fmt.Sprintf("%d: %v", i, m), func(t *testing.T) {
			t.Parallel()
			fn(t, m)
		})
	}
	for end := time.Now().Add(*kit.Soak); time.Now().Before(end); {
		m := next()
		t.Run(m.String(), func(t *testing.T) { fn(t, m) })
	}
}

// fullBytes is what source holds in large files, in bytes.
const fullBytes = 4 << 20

// fullPacks is about how many packs of data that makes.
const fullPacks = fullBytes / packSize

// source makes a tree of about fullPacks packs.
func source(t testing.TB) (src string) {
	t.Helper()
	src = filepath.Join(testkit.RamDir(t), "src")
	testkit.Write(t, src, testkit.Random(3, 60, true))
	written(t, src, 11, map[string]int{"a": fullBytes / 2, "deep/er/b": fullBytes / 4, "deep/c": fullBytes / 4})
	kit.Settle()
	return src
}

// result is how a backup ended.
type result struct {
	out    *backup.Outcome
	totals report.Totals
	err    error
}

// during begins a backup, and returns once the moment is there; the backup continues. The messages are counted by the
// proxy if there is one.
func (m *machine) during(p *smbtest.Proxy, at moment, job backup.Job) (done <-chan result) {
	m.T.Helper()
	return m.begin(p, at, job, func() {})
}

// standing is during, but packs that are not yet under way wait at that moment, until release is called: what the test
// does then may take its time.
func (m *machine) standing(p *smbtest.Proxy, at moment, job backup.Job) (done <-chan result, release func()) {
	m.T.Helper()
	done = m.begin(p, at, job, func() { release = m.st.hold() })
	m.T.Cleanup(release)
	return done, release
}

// begin calls there at the moment, from any goroutine.
func (m *machine) begin(p *smbtest.Proxy, at moment, job backup.Job, there func()) (done <-chan result) {
	m.T.Helper()
	reached := make(chan struct{})
	arrive := func() {
		there()
		close(reached)
	}
	m.st.when(at.pack, func() {
		if p == nil || at.messages == 0 {
			arrive()
			return
		}
		var seen atomic.Int64
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			if f.ToServer && seen.Add(1) == int64(at.messages) {
				arrive()
			}
			return smbtest.Pass
		})
	})
	ended := make(chan result, 1)
	go func() {
		var r result
		r.out, r.totals, r.err = m.BackupCtx(m.T.Context(), job)
		ended <- r
	}()
	select {
	case <-reached:
	case r := <-ended:
		require.Failf(m.T, "too late", "the backup ended before %v: %v", at, r.err)
	}
	return ended
}

// requireEnd requires that a backup finished by itself, or, unless it had to, that it ended with one of the errors and
// with advice. It returns whether it finished.
func (r result) requireEnd(t testing.TB, finish bool, advice string, want ...error) bool {
	t.Helper()
	if r.err == nil {
		require.Zero(t, r.totals.Failures)
		require.NotNil(t, r.out)
		return true
	}
	if finish {
		require.NoError(t, r.err, "the backup should have finished by itself")
	}
	require.Nil(t, r.out, "an error, and a snapshot")
	require.NotErrorIs(t, r.err, errTornNamed)
	require.NotErrorIs(t, r.err, context.Canceled, "the echo of an error, not the error")
	for _, one := range want {
		require.ErrorIs(t, r.err, one)
	}
	require.ErrorContains(t, r.err, advice)
	t.Logf("ended with: %v", r.err)
	return false
}

// uploads is the default number of packs that a session uploads at a time.
const uploads = 2

// requireResumed runs the job again after one that failed, and requires that it sends nothing twice. No blob is in two
// packs. All acknowledged packs are in the index, except those that still lacked their proof.
func (m *machine) requireResumed(job backup.Job) *backup.Outcome {
	m.T.Helper()
	acked, size := m.st.promises(store.Pack)
	stored := m.st.names(store.Pack)
	out, totals := m.requireBackup(job)
	direct := connect(m.T, at(m.server), smb.Options{}, smb.Open)
	for _, name := range namedPacks(m.T, m.st.keys, direct) {
		delete(stored, name)
	}
	require.LessOrEqual(m.T, len(stored), uploads, "packs that were acknowledged are in no index")
	for id, n := range blobs(m.T, m.st.keys, direct) {
		require.Equal(m.T, 1, n, "blob %s was sent again", id.Short())
	}
	_, all := m.st.promises(store.Pack)
	m.T.Logf("%d packs with %d KiB were acknowledged before, %d of them in vain; %d KiB were sent to finish, %d "+
		"KiB were read",
		acked, size>>10, len(stored), (all-size)>>10, totals.Bytes.Read>>10)
	return out
}

// finish brings a cut backup to its end and requires all that must hold then. first is a snapshot from before.
func (m *machine) finish(src string, first *backup.Outcome, r result, ended bool) {
	m.T.Helper()
	kept := []*backup.Outcome{first}
	if ended {
		kept = append(kept, r.out)
	} else {
		kept = append(kept, m.requireResumed(m.job(src)))
	}
	if again, totals := m.requireBackup(m.job(src)); again != nil {
		require.Zero(m.T, totals.Bytes.Read, "the next backup reads an unchanged tree again")
		kept = append(kept, again)
	}
	m.requireListed(kept...)
	m.requireSound(src)
}

// begun makes a server, by way of a proxy, and a machine that has one small snapshot there.
func begun(t *testing.T, c smbtest.Config, o smb.Options) (m *machine, p *smbtest.Proxy, first *backup.Outcome) {
	t.Helper()
	if c.Folder == "" {
		c.Folder = testkit.RamDir(t)
	}
	if o.Protection == smb.Protected {
		o.Protection = smb.Signed // so that the proxy sees what passes; an encrypted session makes the same requests
	}
	s := smbtest.Start(t, c)
	p = smbtest.NewProxy(t, s.Addr(), 0)
	m = newMachine(t, s, through(p, s), o)
	return m, p, m.first()
}

// first makes a snapshot of a small tree.
func (m *machine) first() *backup.Outcome {
	m.T.Helper()
	small := filepath.Join(testkit.RamDir(m.T), "small")
	written(m.T, small, 1, map[string]int{"x": 200_000})
	kit.Settle()
	out, _ := m.requireBackup(m.job(small))
	return out
}

// TestServerKilled: smbd and all its children are killed in the middle of a backup and started again: at once, or when
// the backup has given up. With "strict sync = no" a flush does nothing on the server. Nothing is lost all the same,
// since what its processes wrote is in the cache of the kernel, which lives on: a crash of Samba does no harm. What a
// power cut of such a server loses is another matter.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience smb.Patience // the default is that of a user: two minutes
		share    []string
	}{
		"patient":                  {},
		"impatient":                {patience: smb.Patience{Outage: -1}},
		"patient, without a flush": {share: []string{"strict sync = no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moments(t, 1, 2, fullPacks, func(t *testing.T, when moment) {
				m, p, first := begun(t, smbtest.Config{Share: c.share}, smb.Options{Patience: c.patience})
				src := source(t)
				done := m.during(p, when, m.job(src))
				m.server.Kill()
				var r result
				if c.patience.Outage < 0 {
					r = <-done
					m.server.Run()
				} else {
					m.server.Run()
					r = <-done
				}
				ended := r.requireEnd(t, c.patience.Outage == 0, "run the command again", store.ErrGone, store.ErrTemporary)
				m.finish(src, first, r, ended)
			})
		})
	}
}

// TestSessionEnded: the process that serves one connection of the pool is killed, asked to end, or asked to close the
// share. The backup continues by itself, even without any patience.
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *smbtest.Server, pid int){
		"killed":       func(s *smbtest.Server, pid int) { s.KillClient(pid) },
		"shut down":    func(s *smbtest.Server, pid int) { s.Control(fmt.Sprint(pid), "shutdown") },
		"share closed": func(s *smbtest.Server, pid int) { s.Control(fmt.Sprint(pid), "close-share", smbtest.Share) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moments(t, uint64(len(name)), 2, fullPacks, func(t *testing.T, when moment) {
				m, p, first := begun(t, smbtest.Config{}, smb.Options{Parallel: smb.Parallel{Sessions: 3}})
				src := source(t)
				done := m.during(p, when, m.job(src))
				clients := m.server.Clients()
				require.NotEmpty(t, clients)
				end(m.server, clients[when.pack%len(clients)])
				r := <-done
				m.finish(src, first, r, r.requireEnd(t, true, ""))
			})
		})
	}
}
