package damage

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// TestHealedCopyStaysTheOneThatCounts: a pack of trees is damaged, and the next backup stores its contents again. A
// prune then rewrites the segment of the damaged pack, because another pack that it names goes, and readers meet the
// damaged copy first. The healed one must stay, and they must find it.
func TestHealedCopyStaysTheOneThatCounts(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	limits := []prune.Limit{{None: true}, {Percent: 5}}[:testkit.Rounds(1, 1, 2)]
	for _, limit := range limits {
		t.Run(fmt.Sprintf("%+v", limit), func(t *testing.T) {
			p := kit.NewPruned(t, mem.New())
			for _, folder := range []string{"a", "b"} {
				require.NoError(t, os.Mkdir(filepath.Join(p.Src, folder), 0o755))
				for i := range 3800 {
					name := hex.EncodeToString(testkit.Noise(uint64(i), 120))
					require.NoError(t, os.WriteFile(filepath.Join(p.Src, folder, name), nil, 0o644))
				}
			}
			trash := filepath.Join(p.Src, "trash")
			require.NoError(t, os.WriteFile(trash, testkit.Noise(77, 2_000_000), 0o644))
			backUp := func() format.ID {
				kit.Settle()
				job := p.Job(p.Src)
				one := backup.Range{Start: 1}
				job.Parallel = backup.Parallel{Scanners: 1, Readers: one, Compressors: one} // folder a is stored before b
				out, _, err := p.Backup(job)
				require.NoError(t, err)
				p.Keep(out.ID)
				return out.ID
			}
			first := backUp()
			trees := packOfTrees(p)
			require.NoError(t, os.Remove(trash))
			backUp()
			data := kit.Load(t, p.Store, trees)
			data[len(data)/10] ^= 1 // in a frame that has nothing but entries of a
			require.NoError(t, p.Store.Delete(context.Background(), trees))
			require.NoError(t, p.Store.Put(context.Background(), trees, data))
			p.Open.Cache.Dir = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(p.Src, "b", "new"), nil, 0o644))
			backUp()
			p.Forget(first)
			p.RequireRestorable("healed", true)

			foretold := func() *prune.Result {
				forecast, err := p.Prune(prune.Options{MaxUnused: limit, SessionOptions: repo.SessionOptions{DryRun: true}})
				require.NoError(t, err)
				res, err := p.Prune(prune.Options{MaxUnused: limit})
				require.NoError(t, err)
				require.Equal(t, kit.Foretold(res), kit.Foretold(forecast))
				p.RequireRestorable("after a prune", false)
				p.RequireRestorable("after a prune", true)
				return res
			}
			require.NotZero(t, foretold().Deleted.Packs, "the trash goes, though its segment names the damaged pack")
			damaged := int64(len(data))
			for range 2 { // each prune may write the segment of the damaged pack again, until it is repaired
				most := damaged / 4 // about 44 KB are new, depending on where pages are cut; a frame has 500 KB
				before := kit.BytesOf(t, p.Store, store.Pack)
				for _, folder := range []string{"a", "b"} {
					require.NoError(t, os.WriteFile(filepath.Join(p.Src, folder, "new"), testkit.Noise(uint64(most), 9), 0o644))
				}
				backUp()
				require.Less(t, kit.BytesOf(t, p.Store, store.Pack), before+most, "healed blobs are stored again")
				foretold()
			}
			_, err := repairPacks(p, false)
			require.NoError(t, err)
			p.RequireRestorable("repaired", true)
			foretold()
			p.RequireSound()
			require.Zero(t, kit.Count(t, p.Store, store.Mark))
		})
	}
}

// noSpace is a store that takes nothing more.
type noSpace struct{ store.Store }

func (noSpace) Put(context.Context, store.Name, []byte) error { return store.ErrNoSpace }

func (noSpace) PutNew(context.Context, store.Name, []byte) (store.Info, error) {
	return store.Info{}, store.ErrNoSpace
}

// TestPruneWithoutSpaceToBegin: a writer without the space to announce itself reports a remedy, and the remedy is not
// to prune.
func TestPruneWithoutSpaceToBegin(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Forget(p.Snapshot(1))
	p.Snapshot(2)
	inner := p.Store
	for _, limit := range []prune.Limit{{None: true}, {Percent: 5}} {
		p.Store = noSpace{inner}
		_, err := p.Prune(prune.Options{MaxUnused: limit})
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.ErrorContains(t, err, "enlarge")
		require.NotContains(t, err.Error(), "anew")
		p.Store = inner
	}
	p.RequireRestorable("nothing was done", true)
}

// packOfTrees returns the only pack of trees.
func packOfTrees(p *kit.Pruned) (name store.Name) {
	p.T.Helper()
	trees := packsOf(p, pack.Trees)
	require.Len(p.T, trees, 1)
	return trees[0]
}
