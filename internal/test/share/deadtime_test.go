package share

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestDeadtime: nothing goes out for so long, in the middle of a backup, that the server ends all connections. The
// backup continues without any patience: connections that ended while nothing was under way are no outage. An Echo now
// and then does not keep them: smbd counts when the share was used last.
func TestDeadtime(t *testing.T) {
	if os.Getenv("TIDEMARK_SMB_DEADTIME") == "" {
		t.Skip("takes minutes, since smbd counts its deadtime in minutes: set TIDEMARK_SMB_DEADTIME=1")
	}
	t.Parallel()
	for name, patience := range map[string]smb.Patience{
		"without Echo": {Outage: -1, Idle: time.Hour},
		"with Echo":    {Outage: -1, Idle: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := smbtest.Start(t, smbtest.Config{Folder: testkit.RamDir(t), Global: []string{"deadtime = 1"}})
			m := newMachine(t, s, at(s), smb.Options{Parallel: smb.Parallel{Sessions: 2}, Patience: patience})
			first, src := m.first(), source(t)
			done, release := m.standing(nil, moment{pack: 15}, m.job(src))
			before := len(s.Clients())
			require.Positive(t, before)
			ended := silence(t, s, 3*time.Minute)
			t.Logf("%d connections before, %d after", before, len(s.Clients()))
			require.True(t, ended, "the server keeps connections: this test shows nothing")
			release()
			r := <-done
			m.finish(src, first, r, r.requireEnd(t, true, ""))
		})
	}
}

// silence waits until the server has ended all connections, for some time at most: its clock cannot be moved.
func silence(t *testing.T, s *smbtest.Server, most time.Duration) bool {
	t.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Second) {
		if len(s.Clients()) == 0 {
			return true
		}
	}
	return false
}
