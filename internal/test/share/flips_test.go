package share

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestFlipsOfALineAreNoDamage: a line that neither signs nor encrypts changes a bit of what is read, now and then. A
// check that reads all data finds no damage and marks none. It may report that the line is too bad to check anything.
// The first reads of a connection are spared. A second look takes up to 13 of a new one, which two of them may share.
// A pack that is changed at both looks looks like a damaged one.
func TestFlipsOfALineAreNoDamage(t *testing.T) {
	t.Parallel()
	m, p, _ := begun(t, smbtest.Config{}, smb.Options{Protection: smb.AsOffered})
	src := source(t)
	m.requireBackup(m.job(src))
	seen, rounds := 0, testkit.Rounds(3, 6, 40)
	var all int64 // flips
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			var reads, flips atomic.Int64
			var fresh sync.Map // reads by the number of the connection
			var found *check.Result
			err := m.With(func(r *repo.Repository) (err error) {
				p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
					if !f.Is(smbtest.Read, false) || f.Pending() || len(f.Data) <= 200 {
						return smbtest.Pass
					}
					seen, _ := fresh.LoadOrStore(f.Connection, new(atomic.Int64))
					early := seen.(*atomic.Int64).Add(1) <= 32
					if !early && (reads.Add(1)+int64(11*round))%29 == 0 {
						f.Data[len(f.Data)*2/3] ^= 16
						flips.Add(1)
					}
					return smbtest.Pass
				})
				opt := check.Options{ReadData: true, Scratch: testkit.RamDir(t), Record: "one"}
				found, err = check.Run(t.Context(), r, opt, report.NewJob(report.Check, time.Now))
				return err
			})
			p.Filter(func(*smbtest.Frame) smbtest.Verdict { return smbtest.Pass })
			all += flips.Load() // none in a round whose reads are spread over several connections
			if !errors.Is(err, check.ErrUnsteady) {
				require.NoError(t, err)
				require.Empty(t, found.Problems)
				seen++
			}
			for _, err := range m.st.List(t.Context(), store.Mark) {
				require.NoError(t, err)
				require.Fail(t, "an intact pack is marked as damaged")
			}
		})
	}
	require.Positive(t, seen)
	require.GreaterOrEqual(t, 2*all, int64(rounds))
	m.requireSound(src)
}
