package enginetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/faultstore"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
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
	src := filepath.Join(ramDir(t), "src")
	require.NoError(t, os.Mkdir(src, 0o755))
	written(t, src, map[string]string{"small": "small"})
	settle()
	const stored = 12 // packs before the target goes away
	inner := mem.New()
	e := newEngine(t, inner)
	job := e.crashJob(src)
	job.Session.Uploads, job.Session.Tuning.Segment = 1, 1000

	_, _, err := e.backup(job)
	require.NoError(t, err)
	written(t, src, map[string]string{"big": string(testkit.Noise(1, 4<<20))})
	settle()

	account := &keeper{inner, map[store.Name]bool{}}
	e.st = faultstore.Wrap(account, faultstore.Plan{At: 2 + stored, Ops: faultstore.Put, Sticky: true, Err: store.ErrGone}) // the first is the lease
	out, _, err := e.backup(job)
	require.ErrorIs(t, err, store.ErrGone)
	require.Nil(t, out)
	require.Len(t, account.packs, stored)
	require.Equal(t, 1, count(t, inner, store.Index))

	e.st = inner
	_, totals, err := e.backup(job)
	require.NoError(t, err)
	require.Less(t, totals.Bytes.AfterDedup, uint64(4<<20-(stored-1)*job.Session.Tuning.DataPack), "what was stored is stored again")
	e.requireSound()
	e.requireRestored(src)
	_, totals, err = e.backup(job)
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read)
}

// TestTornPackIsNotAdopted: while the packs of a segment that is gone are looked for, a pack turns up that was torn when
// the target went away. It gets no place in the index.
func TestTornPackIsNotAdopted(t *testing.T) {
	src := filepath.Join(ramDir(t), "src")
	written(t, src, map[string]string{"a": string(testkit.Noise(1, 600_000))})
	settle()
	inner := mem.New()
	e := newEngine(t, inner)
	_, _, err := e.backup(e.crashJob(src))
	require.NoError(t, err)
	var torn store.Name
	for _, name := range everyFile(t, inner) {
		data := load(t, inner, name)
		switch {
		case name.Kind == store.Index:
			require.NoError(t, inner.Delete(context.Background(), name))
		case name.Kind == store.Pack && torn.ID == "" && len(data) > 100_000:
			cut := data[:len(data)-1000] // its frames can be read, and its trailer cannot
			torn = store.Name{Kind: store.Pack, ID: seal.FileID(cut).String()}
			require.NoError(t, inner.Put(context.Background(), torn, cut))
		}
	}
	require.NotEmpty(t, torn.ID)
	_, totals, err := e.backup(e.crashJob(src))
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read)
	require.NotZero(t, count(t, inner, store.Index))
	require.NoError(t, inner.Delete(context.Background(), torn))
	e.open.CacheDir = ramDir(t)
	e.requireSound()
	e.requireRestored(src)
}
