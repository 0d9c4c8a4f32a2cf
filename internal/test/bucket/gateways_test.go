package bucket

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// machine backs up a folder of its own through one gateway.
type machine struct {
	*kit.Engine
	dir    string
	saved  []format.ID
	copies map[format.ID]string // what a snapshot must restore
}

func (m *machine) src() string { return filepath.Join(m.dir, "src") }

// backUp makes the snapshots of one machine. Three files of four are those of the other machines too.
func (m *machine) backUp(number, rounds int) error {
	for round := range rounds {
		for i := range 20 {
			seed := uint64(100*round + i)
			if i%4 == 0 {
				seed += uint64(10_000 * (number + 1))
			}
			name := filepath.Join(m.src(), strconv.Itoa(i))
			if err := os.WriteFile(name, storetest.Pattern(30_000, seed), 0o600); err != nil {
				return err
			}
		}
		kit.Settle()
		out, _, err := m.Backup(m.CrashJob(m.src()))
		if err != nil {
			return err
		}
		m.saved = append(m.saved, out.ID)
		m.copies[out.ID] = filepath.Join(m.dir, strconv.Itoa(round))
		if err := os.CopyFS(m.copies[out.ID], os.DirFS(m.src())); err != nil {
			return err
		}
	}
	return nil
}

// requireWhole restores each snapshot that was not forgotten.
func (m *machine) requireWhole() {
	m.T.Helper()
	for id, want := range m.copies {
		require.NoError(m.T, m.With(func(r *repo.Repository) error {
			found, err := r.FindSnapshot(m.T.Context(), id.String(), repo.Filter{})
			if err != nil {
				return err
			}
			dst, l := filepath.Join(m.T.TempDir(), "out"), report.NewJob(report.Restore, time.Now)
			_, err = restore.Run(m.T.Context(), r, restore.Selection{Tree: found.Snapshot.Tree, Sub: m.src()},
				restore.Target{Path: dst}, 2, l)
			require.Empty(m.T, l.Issues())
			kit.RequireSameFiles(m.T, want, dst, "snapshot "+id.Short())
			return err
		}))
	}
}

// TestTwoGatewaysToTheSameFiles has machines back up at the same time through two gateways that know nothing of each
// other, so that two writers may get one name. No snapshot is lost, nor by a prune when all have ended.
func TestTwoGatewaysToTheSameFiles(t *testing.T) {
	server := s3test.Start(t)
	gateways := []store.Store{connect(t, server), connect(t, server.Beside())}
	kit.NewEngine(t, gateways[0])
	all := make([]*machine, 6)
	var running errgroup.Group
	for i := range all {
		e := &kit.Engine{T: t, Store: gateways[i%2], Parallel: kit.Parallel(2, 2, 2),
			Open: kit.OpenOptions(testkit.RamDir(t))}
		all[i] = &machine{Engine: e, dir: testkit.RamDir(t), copies: make(map[format.ID]string)}
		require.NoError(t, os.Mkdir(all[i].src(), 0o700))
		running.Go(func() error { return all[i].backUp(i, 4) })
	}
	require.NoError(t, running.Wait())
	whole := func() {
		t.Helper()
		for _, m := range all {
			m.requireWhole()
		}
		all[0].RequireSound()
		all[1].RequireSound()
	}
	whole()
	for _, m := range all[:2] {
		require.NoError(t, m.With(func(r *repo.Repository) error {
			delete(m.copies, m.saved[0])
			_, _, err := forget.Drop(t.Context(), r, []repo.Listed{{ID: m.saved[0]}})
			return err
		}))
	}
	require.NoError(t, all[1].With(func(r *repo.Repository) error {
		_, err := prune.Run(t.Context(), r, kit.SmallPrune())
		return err
	}))
	whole()
}
