package share

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestTurnsOverALongLine counts the answers that wait for one another, from the first packet of a connection to the
// last. Opening a file, reading and closing it are three requests, since the library sends no compound ones.
func TestTurnsOverALongLine(t *testing.T) {
	const trip = 60 * time.Millisecond // longer than what is done between two requests
	s := smbtest.Start(t, smbtest.Config{})
	o := smb.Options{Protection: smb.Signed} // its requests are seen
	m := newMachine(t, s, at(s), o)
	dir := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	write := func(from, to int) {
		for i := from; i < to; i++ {
			at := filepath.Join(dir, strconv.Itoa(i%300))
			require.NoError(t, os.WriteFile(at, storetest.Pattern(50_000, uint64(i)), 0o600))
		}
	}
	write(0, 300)
	job := m.job(dir)
	out, _ := m.requireBackup(job)
	tree := out.Snapshot.Tree // of the last backup
	near := m.st.Store
	p := smbtest.NewProxy(t, s.Addr(), trip)
	far := func(fn func() error) int {
		c := smbtest.Watch(p, trip)
		m.st.Store = connect(t, through(p, s), o, smb.Open)
		require.NoError(t, fn())
		require.NoError(t, m.st.Store.(*smb.Store).Close())
		m.st.Store = near
		return c.RoundTrips()
	}
	backup := math.MaxInt
	// Another test may change a folder above the source, which is part of the tree, between two backups. A request that
	// was sent late counts the answers that came meanwhile.
	for tries, unchanged := 0, 0; tries < 20 && unchanged < 2; tries++ {
		before := tree
		n := far(func() error {
			out, _, err := m.BackupCtx(t.Context(), job)
			if err == nil {
				tree = out.Snapshot.Tree
			}
			return err
		})
		if tree == before {
			backup, unchanged = min(backup, n), unchanged+1
		}
	}
	for i := range 19 {
		write(300+i*10, 310+i*10)
		m.requireBackup(job)
	}
	pruned := far(func() error {
		return m.With(func(r *repo.Repository) error {
			all, err := r.Snapshots(t.Context())
			if err != nil {
				return err
			}
			if _, _, err = forget.Drop(t.Context(), r, all[:10]); err != nil {
				return err
			}
			res, err := prune.Run(t.Context(), r, prune.Options{MaxUnused: prune.Limit{Percent: 5}})
			if err == nil {
				require.NotZero(t, res.Deleted.Packs)
			}
			return err
		})
	})
	t.Logf("an unchanged backup %d, forget and prune %d", backup, pruned)
	require.LessOrEqual(t, backup, 60)  // 49 on a quiet machine
	require.LessOrEqual(t, pruned, 215) // 182
}
