package damage

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// markAll marks every pack as damaged. None is.
func markAll(p *kit.Pruned) {
	p.T.Helper()
	var packs []format.ID
	for info, err := range p.Store.List(context.Background(), store.Pack) {
		require.NoError(p.T, err)
		id, err := format.ParseID(info.Name.ID)
		require.NoError(p.T, err)
		packs = append(packs, id)
	}
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		_, err := r.RecordDamage(context.Background(), "test", packs)
		return err
	}))
}

// TestHalfAPruneAndFalseMarks: intact packs are marked as damaged, as a check over a line that flips bits did once, and
// a prune is cut off: the marks are from before it, from after it, or both. Whatever the prune had done by then, one
// backup heals the repository: a check finds nothing, and every snapshot comes back.
func TestHalfAPruneAndFalseMarks(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	first := p.Snapshot(1)
	p.Snapshot(2)
	third := p.Snapshot(3)
	p.Snapshot(4)
	p.Forget(first, third)
	require.NoError(t, os.RemoveAll(p.Src)) // the source does not have what the snapshots need
	kit.Written(t, p.Src, map[string]string{"d1/new": "new"})
	kit.Settle()
	for _, when := range []string{"before", "after", "before and after"} {
		t.Run(when, func(t *testing.T) {
			cut, step := 0, testkit.Rounds(5, 3, 1)
			if when == "after" { // each change counts: between the index and the packs there are few
				step = 1
			}
			for at, more := 1, true; more; at += step {
				c := p.Copied(t)
				if when != "after" {
					markAll(c)
					out, _, err := c.Backup(c.SmallJob())
					require.NoError(t, err)
					c.Keep(out.ID)
				}
				whole := c.Store
				changes := faultstore.Wrap(whole, faultstore.Plan{At: at, Ops: faultstore.Put | faultstore.Delete, Sticky: true})
				c.Store = changes
				_, _ = c.Prune(kit.SmallPrune()) // it is cut off
				c.Store = whole
				if more = changes.Fired(); more {
					cut++
				}
				c.EndLeases()
				if when != "before" {
					markAll(c)
				}
				out, _, err := c.Backup(c.SmallJob())
				require.NoError(t, err)
				c.Keep(out.ID)
				what := fmt.Sprintf("the prune was cut off at change %d", at)
				found := checkAndRecord(c)
				require.Empty(t, found.Problems, what)
				require.Empty(t, checkAndRecord(c).Problems, what)
				c.RequireRestorable(what, true)
				_, err = c.Prune(kit.SmallPrune())
				require.NoError(t, err, what)
				c.RequireWhole(what)
			}
			require.Greater(t, cut, 3)
		})
	}
}
