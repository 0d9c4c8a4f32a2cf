package bucket

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestEachRequestMayFail has each request of a backup fail once, in the ways that servers have, and restores what was
// saved.
func TestEachRequestMayFail(t *testing.T) {
	testkit.Slow(t)
	dir := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	change := func(i int64) {
		name := filepath.Join(dir, strconv.FormatInt(i%7, 10))
		require.NoError(t, os.WriteFile(name, storetest.Pattern(5000, uint64(i)+99), 0o600))
	}
	change(1)
	for what, fault := range map[string]s3test.Fault{
		"the answer is lost":       {Cut: true},
		"the request is lost":      {Cut: true, Status: http.StatusTeapot},
		"slow down":                {Status: http.StatusServiceUnavailable, Code: "SlowDown"},
		"conflict":                 {Status: http.StatusConflict, Code: "ConditionalRequestConflict"},
		"half of the answer":       {Half: true},
		"a bit changes on the way": {Alter: true},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			b.Store = retry.Wrap(b.Store, retry.Policy{Attempts: 4, First: time.Microsecond})
			_, _, err := b.Backup(b.Job(dir))
			require.NoError(t, err)
			bad := int64(0)
			for done := false; !done; {
				bad++
				change(bad)
				var n atomic.Int64
				b.fake.Faults(func(r *http.Request) s3test.Fault {
					if n.Add(1) != bad || fault.Alter && r.ContentLength == 0 {
						return s3test.Fault{}
					}
					return fault
				})
				_, _, err := b.Backup(b.Job(dir))
				require.NoError(t, err, "request %d", bad)
				b.fake.Faults(nil)
				done = n.Load() < bad
			}
			require.Greater(t, bad, int64(15), "a backup has more requests")
			b.RequireRestored(dir)
			b.RequireSound()
		})
	}
}

// TestAServerMayBeKilled kills a real server during backups and starts it again. What was saved is whole.
func TestAServerMayBeKilled(t *testing.T) {
	server := s3test.Start(t)
	e := kit.NewEngine(t, connect(t, server))
	dir := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for round := range 6 {
		for i := range 200 {
			data := storetest.Pattern(200_000, uint64(1000*round+i))
			require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), data, 0o600))
		}
		saved := make(chan error, 1)
		go func() {
			_, _, err := e.Backup(e.Job(dir))
			saved <- err
		}()
		pause := time.NewTimer(time.Duration(40*(round+1)) * time.Millisecond)
		select {
		case <-pause.C:
		case err := <-saved:
			saved <- err
		}
		server.Restart()
		require.NoError(t, <-saved, "round %d", round)
		e.RequireRestored(dir)
	}
	e.RequireSound()
}

// connect returns a store on a server, which tries again.
func connect(t *testing.T, server *s3test.Server) store.Store {
	t.Helper()
	keys := s3.Keys{Env: func(name string) (string, bool) {
		value, ok := map[string]string{"AWS_ACCESS_KEY_ID": s3test.ID, "AWS_SECRET_ACCESS_KEY": s3test.Secret}[name]
		return value, ok
	}}
	remote, err := s3.Create(t.Context(), s3.Target{Endpoint: server.Addr, Bucket: s3test.Bucket, Prefix: "p"},
		s3.Options{Keys: keys, CA: server.CA})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, remote.Close()) })
	return retry.Wrap(remote, retry.DefaultPolicy())
}
