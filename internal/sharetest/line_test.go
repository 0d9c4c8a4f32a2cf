package sharetest

import (
	"testing"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/store/smb/smbtest"
)

// outage is how long the network is down: longer than what a person notices, and long enough for TCP to have become slow
// to try again.
const outage = 20 * time.Second

// TestNetworkDown pulls the cable out of the server in the middle of a backup, without a word to anybody, and puts it
// back. Whoever waits for an answer as long as users do stays on the same connection; whoever is quick to doubt one dials
// again; both finish. Whoever waits three seconds ends with an error, and the next run resumes.
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
				s := smbtest.Start(t, smbtest.Config{Folder: ramDir(t), Line: line})
				m := newMachine(t, s, at(s), smb.Options{Patience: patience})
				first, src := m.first(), source(t)
				done := m.during(nil, when, m.job(src))
				line.Outage(outage)
				r := <-done
				ended := r.requireEnd(t, patience.Outage == 0, "see whether", store.ErrGone, store.ErrTemporary)
				m.finish(src, first, r, ended)
			})
		})
	}
}
