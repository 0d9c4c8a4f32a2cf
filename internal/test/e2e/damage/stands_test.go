package damage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// rolled checks as a service does, with the record of a machine.
func rolled(p *kit.Pruned, opt check.Options) *check.Result {
	p.T.Helper()
	opt.Record, opt.Scratch = "test", p.Dir
	var found *check.Result
	require.NoError(p.T, p.With(func(r *repo.Repository) (err error) {
		found, err = check.Run(context.Background(), r, opt, report.NewJob(report.Check, time.Now))
		return err
	}))
	return found
}

// losses restores every snapshot as another machine would and returns what is not restored.
func losses(p *kit.Pruned) (lost []string) {
	p.T.Helper()
	was := p.Open
	defer func() { p.Open = was }()
	p.Open.Cache.Dir, p.Open.Cache.Temporary = "", true
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.NoError(p.T, err)
		for i, l := range listed {
			ledger := report.NewJob(report.Restore, time.Now)
			_, err := restore.Run(context.Background(), r, restore.Selection{Tree: l.Snapshot.Tree, Sub: p.Src},
				kit.Target(filepath.Join(testkit.RamDir(p.T), fmt.Sprint(i))), 2, ledger)
			if err != nil {
				lost = append(lost, err.Error())
			}
			for _, issue := range ledger.Issues() {
				lost = append(lost, issue.String())
			}
		}
		return nil
	}))
	return lost
}

// harmSome damages one or two stored files: bits anywhere in a pack, bits in its table, its end, the pack, a segment.
func harmSome(p *kit.Pruned, rng *rand.Rand) {
	p.T.Helper()
	ctx := context.Background()
	for range 1 + rng.IntN(2) {
		kind := store.Pack
		what := rng.IntN(5)
		if what == 4 {
			kind = store.Index
		}
		var names []store.Name
		for info, err := range p.Store.List(ctx, kind) {
			require.NoError(p.T, err)
			names = append(names, info.Name)
		}
		if len(names) == 0 {
			continue
		}
		name := sorted(names)[rng.IntN(len(names))]
		data := kit.Load(p.T, p.Store, name)
		switch {
		case what == 0:
			require.NoError(p.T, p.Store.Delete(ctx, name))
			continue
		case what == 1:
			data = data[:rng.IntN(len(data))]
		case what == 2 && len(data) > pack.FooterSize:
			data[len(data)-1-rng.IntN(pack.FooterSize)] ^= 1
		case len(data) > 0:
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
		}
		require.NoError(p.T, p.Store.Put(ctx, name, data))
	}
}

// TestKnownDamageStaysKnown: after a check has found damage, each later check reports it, of whatever kind the check
// is, until it is healed by a backup and the snapshots that need the rest are forgotten. A check that finds nothing is
// right: everything can be restored.
func TestKnownDamageStaysKnown(t *testing.T) {
	testkit.Slow(t)
	for seed := range testkit.Rounds(3, 12, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 5))
			p := kit.NewPruned(t, mem.New())
			p.Few = true
			old := []format.ID{p.Snapshot(uint64(seed)), p.Snapshot(uint64(seed) + 1)}
			harmSome(p, rng)
			proofs := t.TempDir()
			whole := check.Options{ReadData: true, Proofs: proofs}
			require.False(t, rolled(p, whole).OK(), "all that is stored is needed")
			lost := losses(p.Copied(t)) // of a copy, since a restore writes a damaged index again
			for i := range 6 {
				opt := check.Options{ReadData: true, Subset: check.Subset{Rolling: 3}, Proofs: proofs}
				require.False(t, rolled(p, opt).OK(), "rolling check %d", i)
			}
			require.False(t, rolled(p, check.Options{Proofs: proofs}).OK(), "a check that reads no data")
			require.False(t, rolled(p, whole).OK(), "a second check of all data")

			kit.Settle()
			out, _, err := p.Backup(p.SmallJob())
			require.NoError(t, err)
			if rolled(p, check.Options{}).OK() {
				require.Empty(t, losses(p), "a check that finds nothing is right")
			}
			require.NoError(t, p.With(func(r *repo.Repository) error {
				_, err := repair.Index(context.Background(), r, repo.SessionOptions{})
				return err
			}))
			p.Keep(out.ID)
			if len(lost) == 0 { // the rest is moved out of the damaged packs
				require.NoError(t, p.With(func(r *repo.Repository) error {
					_, err := repair.Packs(context.Background(), r, nil, repo.SessionOptions{})
					return err
				}))
				require.Empty(t, rolled(p, whole).Problems, "repaired")
				return
			}
			p.Forget(old...)
			require.Empty(t, rolled(p, whole).Problems, "healed")
			require.Empty(t, losses(p))
		})
	}
}
