package share

import (
	"testing"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// outage is how long the network is down: longer than what a person notices, and long enough for TCP to have become
// slow to try again.
const outage = 20 * time.Second

// TestNetworkDown silently disconnects the server in the middle of a backup and connects it again. With default
// patience the backup stays on the same connection; with a short request timeout it dials again; both finish. With
// three seconds of patience it ends with an error, and the next run resumes.
func TestNetworkDown(t *testing.T) {
	t.Parallel()
	for name, patience := range map[string]smb.Patience{
		"as users have it": {},
		"quick to redial":  {Request: 2 * time.Second},
		"gives up":         {Request: 2 * time.Second, Outage: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moments(t, 7+uint64(len(name)), 2, fullPacks, func(t *testing.T, when moment) {
				line := smbtest.NewLine(t)
				s := smbtest.Start(t, smbtest.Config{Folder: testkit.RamDir(t), Line: line})
				m := newMachine(t, s, at(s), smb.Options{Patience: patience})
				first, src := m.first(), source(t)
				done := m.during(nil, when, m.job(src))
				line.Outage(outage)
				r := <-done
				ended := r.requireEnd(t, patience.Outage == 0, "run the command again", store.ErrGone, store.ErrTemporary)
				m.finish(src, first, r, ended)
			})
		})
	}
}
