package crash

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// keeper keeps account of the packs that a target acknowledged.
type keeper struct {
	store.Store
	packs map[store.Name]bool
}

func (k *keeper) Put(ctx context.Context, name store.Name, data []byte) error {
	err := k.Store.Put(ctx, name, data)
	if err == nil && name.Kind == store.Pack {
		k.packs[name] = true
	}
	return err
}

// TestTargetAwayBeforeTheIndex: a target goes away for good before a run has put its index segment. The next run finds
// every pack that was acknowledged, also the segment that could not be written, and sends none of it again.
func TestTargetAwayBeforeTheIndex(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.Mkdir(src, 0o755))
	kit.Written(t, src, map[string]string{"small": "small"})
	kit.Settle()
	const stored = 12 // packs before the target goes away
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	job := e.CrashJob(src)
	job.Session.Uploads, job.Session.Tuning.Segment = 1, 1000

	_, _, err := e.Backup(job)
	require.NoError(t, err)
	kit.Written(t, src, map[string]string{"big": string(testkit.Noise(1, 4<<20))})
	kit.Settle()

	account := &keeper{inner, map[store.Name]bool{}}
	// the first is the lease
	e.Store = faultstore.Wrap(account, faultstore.Plan{At: 2 + stored, Ops: faultstore.Put, Sticky: true,
		Err: store.ErrGone})
	out, _, err := e.Backup(job)
	require.ErrorIs(t, err, store.ErrGone)
	require.Nil(t, out)
	require.Len(t, account.packs, stored)
	require.Equal(t, 1, kit.Count(t, inner, store.Index))

	e.Store = inner
	_, totals, err := e.Backup(job)
	require.NoError(t, err)
	require.Less(t, totals.Bytes.AfterDedup, uint64(4<<20-(stored-1)*job.Session.Tuning.DataPack),
		"what was stored is stored again")
	e.RequireSound()
	e.RequireRestored(src)
	_, totals, err = e.Backup(job)
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read)
}

// TestTornPackIsNotAdopted: while the packs of a segment that is gone are looked for, a pack turns up that was torn
// when the target went away. It gets no place in the index.
func TestTornPackIsNotAdopted(t *testing.T) {
	src := filepath.Join(testkit.RamDir(t), "src")
	kit.Written(t, src, map[string]string{"a": string(testkit.Noise(1, 600_000))})
	kit.Settle()
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	_, _, err := e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	var torn store.Name
	for _, name := range kit.EveryFile(t, inner) {
		data := kit.Load(t, inner, name)
		switch {
		case name.Kind == store.Index:
			require.NoError(t, inner.Delete(context.Background(), name))
		case name.Kind == store.Pack && !name.OfTrees() && torn.ID == "" && len(data) > 100_000:
			cut := data[:len(data)-1000] // its frames can be read, and its trailer cannot
			torn = object.Named(store.Pack, pack.ID(cut))
			require.NoError(t, inner.Put(context.Background(), torn, cut))
		}
	}
	require.NotEmpty(t, torn.ID)
	_, totals, err := e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read)
	require.NotZero(t, kit.Count(t, inner, store.Index))
	require.NoError(t, inner.Delete(context.Background(), torn))
	e.Open.Cache.Dir = testkit.RamDir(t)
	e.RequireSound()
	e.RequireRestored(src)
}
