package share

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// liar is a server that writes half of the data and reports that it wrote all.
type liar struct {
	mu       sync.Mutex
	writes   int
	always   int                         // every write from this one on; 0: none
	first    func(f *smbtest.Frame) bool // the first write that matches; nil: none
	reported int
	claims   map[[2]uint64]uint32
}

func (l *liar) judge(f *smbtest.Frame) smbtest.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := func() [2]uint64 { return [2]uint64{uint64(f.Connection), f.Message()} }
	switch {
	case f.Is(smbtest.Write, true):
		l.writes++
		now := l.always > 0 && l.writes >= l.always
		if l.first != nil && l.first(f) {
			now, l.first = true, nil
		}
		if now {
			l.reported++
			l.claims[key()] = f.HalveWrite()
		}
	case f.Is(smbtest.Write, false) && !f.Pending():
		if n, lied := l.claims[key()]; lied {
			delete(l.claims, key())
			f.SetWritten(n)
		}
	}
	return smbtest.Pass
}

func (l *liar) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reported
}

// TestTornForEver: from some moment on everything is torn. The backup ends with an error that names the server, the
// index names nothing torn, and once the server is mended the next run resumes.
func TestTornForEver(t *testing.T) {
	t.Parallel()
	moments(t, 42, 2, fullPacks, func(t *testing.T, when moment) {
		m, p, first := begun(t, smbtest.Config{}, smb.Options{Protection: smb.AsOffered})
		src := source(t)
		l := &liar{always: when.pack + when.messages, claims: map[[2]uint64]uint32{}}
		p.Filter(l.judge)
		var r result
		r.out, r.totals, r.err = m.BackupCtx(t.Context(), m.job(src))
		require.False(t, r.requireEnd(t, false, "check the disk", smb.ErrTorn))
		requireNamedWhole(t, m.st.keys, connect(t, at(m.server), smb.Options{}, smb.Open))
		p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
		m.finish(src, first, r, false)
	})
}

// TestHoleInTheMiddle shows what each way to verify is worth against a server that leaves a hole in the middle of a
// large pack with an intact end. Full verification finds it and sends the pack again. On an unprotected connection
// verification of trailers does so too, since it is a full one then. On a signed connection only the disk of the server
// can make the hole: verification of trailers misses it, and the check that reads all data finds it. Documents may
// promise this and no more.
func TestHoleInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options smb.Options
		found   bool
	}{
		"full":                                  {smb.Options{Protection: smb.AsOffered, Verify: smb.VerifyFull}, true},
		"trailer, neither signed nor encrypted": {smb.Options{Protection: smb.AsOffered}, true},
		"full, signed":                          {smb.Options{Protection: smb.Signed, Verify: smb.VerifyFull}, true},
		"trailer, signed":                       {smb.Options{Protection: smb.Signed}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, p, first := begun(t, smbtest.Config{}, c.options)
			src := source(t)
			job := m.job(src)
			job.Session.Tuning.DataPack = 4 << 20 // several writes
			m.st.disk = ""                        // a finding here would come before the index goes out
			holes := punched(t, m, p, c.options.Protection == smb.Signed)
			out, totals, err := m.BackupCtx(t.Context(), job)
			r := result{out, totals, err}
			r.requireEnd(t, true, "")
			require.Equal(t, 1, holes())
			if c.found {
				m.finish(src, first, r, true)
				return
			}
			found := m.another("two", smb.Options{}).Problems()
			require.NotEmpty(t, found, "the check does not find the hole")
		})
	}
}

// punched drops the first mebibyte of the next large pack: in the server's write, or on its disk, just before the pack
// gets its name. holes counts them. The end of the pack reaches into its last mebibyte.
func punched(t *testing.T, m *machine, p *smbtest.Proxy, onDisk bool) (holes func() int) {
	t.Helper()
	l := &liar{claims: map[[2]uint64]uint32{},
		first: func(f *smbtest.Frame) bool { return len(f.Data) > 1<<20 && f.Offset() == 0 }}
	if !onDisk {
		p.Filter(l.judge)
		return l.count
	}
	var once atomic.Int64
	p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if !f.IsRename() || once.Load() > 0 {
			return smbtest.Pass
		}
		for _, path := range leftovers(t, m.server.Folder) {
			if info, err := os.Stat(path); err == nil && info.Size() > 2<<20 && once.Add(1) == 1 {
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				assert.NoError(t, err)
				_, err = f.WriteAt(make([]byte, 1<<20), 0)
				assert.NoError(t, err)
				assert.NoError(t, f.Close())
			}
		}
		return smbtest.Pass
	})
	return func() int { return int(once.Load()) }
}

// TestAnswersToAPruneAreLost: a prune loses the answer to one rename or removal, each in turn, those of its leases
// among them. It ends as if nothing had happened.
func TestAnswersToAPruneAreLost(t *testing.T) {
	t.Parallel()
	m, p, _ := begun(t, smbtest.Config{}, smb.Options{Parallel: smb.Parallel{Sessions: 2}})
	n := int64(1)
	for more := true; more; n++ {
		var answers atomic.Int64
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			if f.Is(smbtest.SetInfo, false) && answers.Add(1) == n {
				return smbtest.Cut
			}
			return smbtest.Pass
		})
		require.NoError(t, m.With(func(r *repo.Repository) error {
			_, err := prune.Run(t.Context(), r, prune.Options{MaxUnused: prune.Limit{Percent: 5}})
			return err
		}), "answer %d", n)
		more = answers.Load() >= n
	}
	require.Greater(t, n, int64(3))
	for _, err := range m.st.List(t.Context(), store.Lease) {
		require.NoError(t, err)
		require.Fail(t, "a lease is left")
	}
}
