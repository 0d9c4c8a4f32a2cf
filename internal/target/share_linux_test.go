package target_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/target"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// share opens the root of a server's share, by way of a port.
func share(t *testing.T, s *smbtest.Server, port int, o smb.Options) *smb.Store {
	t.Helper()
	at := smb.Target{User: s.User, Host: "127.0.0.1", Port: port, Share: smbtest.Share}
	o.Credentials = func(context.Context) (smb.Secret, error) { return smb.Secret{Password: smbtest.Password}, nil }
	o.Patience.Outage = -1
	st, err := smb.Open(t.Context(), at, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// logReport logs a report and checks that it is complete.
func logReport(t *testing.T, r *target.Report) {
	t.Helper()
	for _, p := range r.Probes {
		t.Logf("%-12s %-8s %s (%s)", p.Name, p.Result, p.Evidence, p.Remedy)
		require.NotEmpty(t, p.Evidence)
		if p.Result == target.Degraded || p.Result == target.Unfit {
			require.NotEmpty(t, p.Remedy, "what is done about it")
		}
	}
}

// probeShare probes a share and checks that its folder is unchanged afterwards.
func probeShare(t *testing.T, s *smbtest.Server, o smb.Options, now func() time.Time) *target.Report {
	t.Helper()
	st := share(t, s, s.Port, o)
	before := names(t, s.Folder)
	r, err := target.RunServer(t.Context(), st, target.Options{Now: now})
	require.NoError(t, err)
	require.Equal(t, before, names(t, s.Folder), "nothing is left behind")
	logReport(t, r)
	require.Equal(t, st.Location(), r.Path)
	return r
}

// TestShares probes servers as people have them.
func TestShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server   smbtest.Config
		options  smb.Options
		sentence string
		evidence map[string]string // of a probe, a part of it
		ahead    time.Duration     // the clock of this machine
	}{
		"as Debian sets it": {sentence: "safe", evidence: map[string]string{
			"connection": "SMB 3.1.1 with 127.0.0.1, encrypted (AES-128-GCM)", "case": "are one file",
			"rename": "times while it was read", "clock": "agrees",
		}},
		"strict sync = no": {
			server:   smbtest.Config{Share: []string{"strict sync = no"}},
			sentence: "safe", evidence: map[string]string{"flush": "acknowledges flushes"},
		},
		"case sensitive": {
			server:   smbtest.Config{Share: []string{"case sensitive = yes"}},
			sentence: "safe", evidence: map[string]string{"case": "are different files"},
		},
		"upper case": {
			server: smbtest.Config{Share: []string{"case sensitive = no", "preserve case = no", "short preserve case = no",
				"default case = upper"}},
			sentence: "safe", evidence: map[string]string{"write": "listed under its name", "case": "are one file"},
		},
		"SMB 2.1": {
			server:   smbtest.Config{Global: []string{"server max protocol = SMB2_10"}},
			sentence: "safe", evidence: map[string]string{"connection": "SMB 2.1 with 127.0.0.1, each request signed"},
		},
		"neither signed nor encrypted": {
			options: smb.Options{Protection: smb.AsOffered}, sentence: "degraded because of connection",
			evidence: map[string]string{"connection": "SMB 3.1.1 with 127.0.0.1, neither signed nor encrypted"},
		},
		"signed": {options: smb.Options{Protection: smb.Signed}, sentence: "safe",
			evidence: map[string]string{"connection": "each request signed"}},
		"encrypted": {
			server:   smbtest.Config{Global: []string{"server smb encrypt = required"}},
			sentence: "safe", evidence: map[string]string{"connection": "encrypted (AES-128-GCM)"},
		},
		"SMB 3.0, encrypted here": {
			server:   smbtest.Config{Global: []string{"server max protocol = SMB3_00"}},
			options:  smb.Options{Protection: smb.Encrypted},
			sentence: "safe", evidence: map[string]string{"connection": "SMB 3.0 with 127.0.0.1, encrypted (AES-128-CCM)"},
		},
		"fruit, as for Time Machine": {
			server: smbtest.Config{Global: []string{"fruit:aapl = yes"}, Share: []string{
				"vfs objects = fruit streams_xattr", "fruit:metadata = stream", "fruit:time machine = yes", "fruit:posix_rename " +
					"= yes",
			}},
			sentence: "safe", evidence: map[string]string{"write": "read back"},
		},
		"clock ahead": {
			sentence: "degraded because of clock", ahead: -2 * time.Hour,
			evidence: map[string]string{"clock": "2h0m0s ahead of"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "fruit") {
				smbtest.NeedModule(t, "fruit")
			}
			now := func() time.Time { return time.Now().Add(c.ahead) }
			r := probeShare(t, smbtest.Start(t, c.server), c.options, now)
			require.Equal(t, c.sentence, r.Sentence())
			for name, part := range c.evidence {
				require.Contains(t, probe(t, r, name).Evidence, part)
			}
			require.Contains(t, []target.Result{target.Good, target.Info}, probe(t, r, "rename").Result)
			require.Contains(t, probe(t, r, "rename").Evidence, "always whole")
			require.Contains(t, probe(t, r, "flush").Remedy, "cannot be seen from here")
		})
	}
}

// A share that refuses is unfit, and the report names a remedy.
func TestSharesThatRefuse(t *testing.T) {
	full := func(left int) func(t *testing.T, s *smbtest.Server) {
		return func(t *testing.T, s *smbtest.Server) { fill(t, filepath.Join(s.Folder, "full"), left) }
	}
	for name, c := range map[string]struct {
		folder   func(t *testing.T) string
		lines    []string
		make     func(t *testing.T, s *smbtest.Server)
		remedy   string
		sentence string
	}{
		"read only": {lines: []string{"read only = yes"}, remedy: "on the share", sentence: "unfit because of write"},
		"full": {
			folder: func(t *testing.T) string { return disk(t, 32<<20, "", "mkfs.ext4", "-q", "-m0") }, make: full(0),
			remedy: "free some space", sentence: "unfit because of write",
		},
		"nearly full": {
			folder: func(t *testing.T) string { return disk(t, 32<<20, "", "mkfs.ext4", "-q", "-m0") }, make: full(100 << 10),
			remedy: "free some space", sentence: "unfit because of write",
		},
		"mounted read-only on the server": {
			folder: func(t *testing.T) string { return disk(t, 32<<20, ",ro", "mkfs.ext4", "-q", "-m0") },
			remedy: "on the share", sentence: "unfit because of write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := smbtest.Config{Share: c.lines}
			if c.folder != nil {
				config.Folder = c.folder(t)
			}
			s := smbtest.Start(t, config)
			if c.make != nil {
				c.make(t, s)
			}
			r := probeShare(t, s, smb.Options{}, nil)
			require.Equal(t, c.sentence, r.Sentence())
			require.Contains(t, r.Because()[0].Remedy, c.remedy)
			require.NotContains(t, r.Because()[0].Evidence, "what was stored so far", "nothing was stored")
		})
	}
}

// A session as a guest is degraded.
func TestShareOpenToGuests(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{
		Global: []string{"map to guest = Bad User", "guest account = root"}, Share: []string{"guest ok = yes"},
	})
	at := smb.Target{User: "guest", Host: "127.0.0.1", Port: s.Port, Share: smbtest.Share}
	st, err := smb.Open(t.Context(), at, smb.Options{Protection: smb.AsOffered})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	r, err := target.RunServer(t.Context(), st, target.Options{})
	require.NoError(t, err)
	logReport(t, r)
	require.Equal(t, "degraded because of connection", r.Sentence())
}

func TestMeasureShare(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	before := names(t, s.Folder)
	st := share(t, s, s.Port, smb.Options{Verify: smb.VerifyFull})
	speed, err := target.MeasureServer(t.Context(), st)
	require.NoError(t, err)
	require.Equal(t, before, names(t, s.Folder))
	require.Positive(t, speed.Large.Elapsed)
	require.Positive(t, speed.Small.Elapsed)
	for _, line := range speed.Lines()[1:] {
		require.Contains(t, line, st.Location())
		t.Log(line)
	}
}

func TestMeasureFullShare(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{Folder: disk(t, 32<<20, "", "mkfs.ext4", "-q", "-m0")})
	before := names(t, s.Folder)
	_, err := target.MeasureServer(t.Context(), share(t, s, s.Port, smb.Options{}))
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.Equal(t, before, names(t, s.Folder))
}

// calls are the operations that the tests below cancel and cut.
func calls(st *smb.Store) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"probe": func(ctx context.Context) error {
			_, err := target.RunServer(ctx, st, target.Options{})
			return err
		},
		"measure": func(ctx context.Context) error {
			_, err := target.MeasureServer(ctx, st)
			return err
		},
	}
}

// A run that is cancelled at any moment leaves nothing behind.
func TestShareCancelled(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Important))
	st := share(t, s, s.Port, smb.Options{Pass: pass})
	cause := errors.New("enough")
	for i := range 6 {
		for name, call := range calls(st) {
			ctx, cancel := context.WithCancelCause(t.Context())
			before := gate.Stats().Operations
			go func() {
				for gate.Stats().Operations < before+uint64(i*i*7) && ctx.Err() == nil {
					runtime.Gosched()
				}
				cancel(cause)
			}()
			if err := call(ctx); err != nil {
				require.ErrorIs(t, err, cause, name)
			}
			cancel(nil)
			require.Empty(t, names(t, s.Folder), name)
		}
	}
}

// A connection that breaks during a probe is made again, as in a backup, and nothing is left behind. Requests count
// from the first one that writes: the removal of stale folders before it ignores errors.
func TestShareConnectionBreaks(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	requests := []int64{9, 333, 1, 2, 22, 40}
	for _, n := range requests[:testkit.Rounds(1, 2, len(requests))] {
		line := smbtest.NewProxy(t, s.Addr(), 0)
		st := share(t, s, line.Port, smb.Options{Protection: smb.Signed})
		for name, call := range calls(st) {
			var frames atomic.Int64
			line.Filter(func(f *smbtest.Frame) smbtest.Verdict {
				counts := frames.Load() > 0 || f.Is(smbtest.Write, true)
				if f.ToServer && counts && frames.Add(1) == n {
					return smbtest.Cut
				}
				return smbtest.Pass
			})
			err := call(t.Context())
			t.Logf("%s, request %d: %v", name, n, err)
			if err != nil {
				require.ErrorIs(t, err, store.ErrTemporary, "request %d", n)
			}
			require.Empty(t, names(t, s.Folder), name)
		}
	}
}

// A server that is gone for good ends the probes soon. The next probe removes what is left a day later.
func TestShareServerDies(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	line := smbtest.NewProxy(t, s.Addr(), 0)
	st := share(t, s, line.Port, smb.Options{})
	var frames atomic.Int64
	line.Filter(func(*smbtest.Frame) smbtest.Verdict {
		if frames.Add(1) > 300 {
			return smbtest.Cut
		}
		return smbtest.Pass
	})
	_, err := target.RunServer(t.Context(), st, target.Options{})
	require.ErrorIs(t, err, store.ErrTemporary)
	require.ErrorContains(t, err, "remove temporary folder")
	line.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
	left := names(t, s.Folder)
	require.Len(t, left, 1)
	for i, age := range []time.Duration{23 * time.Hour, 25 * time.Hour} {
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(s.Folder, left[0]), at, at))
		_, err = target.RunServer(t.Context(), st, target.Options{})
		require.NoError(t, err)
		require.Len(t, names(t, s.Folder), 1-i)
	}
}

// Probes beside a repository do not change it.
func TestShareWithRepository(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	st := share(t, s, s.Port, smb.Options{})
	all := []store.Name{{Kind: store.Config}, {Kind: store.Pack, ID: strings.Repeat("ab", 32)},
		{Kind: store.Lease, ID: "0"}}
	for _, name := range all {
		require.NoError(t, st.Put(t.Context(), name, []byte("what is kept")))
	}
	for name, call := range calls(st) {
		require.NoError(t, call(t.Context()), name)
	}
	for _, name := range all {
		got := make([]byte, 12)
		require.NoError(t, st.Get(t.Context(), name, 0, got))
		require.Equal(t, "what is kept", string(got))
		n := 0
		for _, err := range st.List(t.Context(), name.Kind) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 1, n)
	}
}
