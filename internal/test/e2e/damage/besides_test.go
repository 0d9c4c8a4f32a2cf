package damage

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// twinOf returns another pack with the frames of a pack.
func twinOf(p *kit.Pruned, name store.Name, size int64) (twin []byte, as store.Name) {
	p.T.Helper()
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		id, err := format.ParseID(name.ID)
		require.NoError(p.T, err)
		own, err := index.ReadTable(context.Background(), p.Store, r.Keys(), id, size)
		require.NoError(p.T, err)
		b, err := pack.NewBuilder(r.Keys(), own.Table.Kind, nil)
		require.NoError(p.T, err)
		in := index.PackInfo{ID: id, Salt: own.Table.Salt, Size: uint64(size)}
		for i := range own.Table.Frames {
			f := &own.Table.Frames[i]
			raw, _, err := r.ReadFrame(context.Background(), in, f.Offset, f.Sealed)
			require.NoError(p.T, err)
			require.NoError(p.T, b.Append(&pack.Payload{Codec: pack.Stored, Blobs: f.Blobs, Raw: f.Raw, Data: raw}))
		}
		twin, _, err = b.Finish()
		as = object.Named(store.Pack, pack.ID(twin, own.Table.Kind))
		return err
	}))
	return twin, as
}

// TestCheckFindsWhatNoIndexNames: all packs of a machine are damaged, and packs that no index segment names hold the
// same. A restore finds these, so a check calls nothing lost, and what it says to do next makes the repository whole.
func TestCheckFindsWhatNoIndexNames(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(p *kit.Pruned) error{
		"backup": func(p *kit.Pruned) error {
			out, _, err := p.Backup(p.SmallJob())
			if err == nil {
				p.Keep(out.ID)
			}
			return err
		},
		"repair index": func(p *kit.Pruned) error {
			_, err := repairIndex(p, false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := kit.NewPruned(t, mem.New())
			var strays []string
			p.Snapshot(1)
			own := packsIn(t, p.Store)
			for name, data := range own {
				twin, as := twinOf(p, name, int64(len(data)))
				require.NoError(t, p.Store.Put(context.Background(), as, twin))
				strays = append(strays, as.ID)
				data[pack.HeaderSize+pack.FrameHeaderSize+5] ^= 1
				require.NoError(t, p.Store.Put(context.Background(), name, data))
			}
			p.RequireRestorable("from packs in no index", true)

			found := rolled(p, check.Options{ReadData: true})
			require.Len(t, found.Problems, len(own))
			for _, problem := range found.Problems {
				require.Empty(t, problem.Paths, problem.Object)
				require.Contains(t, problem.Advice, "none of the snapshots", problem.Object)
			}
			said := slices.IndexFunc(found.Notes, func(note string) bool {
				return strings.Contains(note, "'tidemark repair index'")
			})
			require.GreaterOrEqual(t, said, 0, found.Notes)
			require.True(t, slices.ContainsFunc(strays, func(id string) bool {
				return strings.Contains(found.Notes[said], id)
			}), found.Notes[said])

			require.NoError(t, next(p))
			require.True(t, rolled(p, check.Options{}).OK(), "what the check said to do")
			_, err := p.Prune(prune.Options{MaxUnused: prune.Limit{Bytes: 0}})
			require.NoError(t, err)
			p.RequireWhole("and after a prune")
		})
	}
}
