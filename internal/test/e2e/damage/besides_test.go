package damage

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
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
		b := pack.NewBuilder(r.Keys(), own.Table.Kind, nil)
		in := index.PackInfo{ID: id, Salt: own.Table.Salt, Size: uint64(size)}
		for i := range own.Table.Frames {
			f := &own.Table.Frames[i]
			raw, _, err := r.ReadFrame(context.Background(), in, f.Offset, f.Sealed)
			require.NoError(p.T, err)
			require.NoError(p.T, b.Append(&pack.Payload{Codec: pack.Stored, Blobs: f.Blobs, Raw: f.Raw, Data: raw}))
		}
		twin, _, err = b.Finish()
		as = object.Named(store.Pack, pack.ID(twin))
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
				require.Contains(t, problem.Advice, "repair packs", problem.Object)
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

// TestRepairIndexNamesMarkedPacks: what is left of a pack that is marked as damaged, and that no index segment names
// any more, gets into the index again, and the repair reports the pack.
func TestRepairIndexNamesMarkedPacks(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Snapshot(1)
	largest := packsOf(p, pack.Data)[0]
	for _, name := range packsOf(p, pack.Data) {
		if len(kit.Load(t, p.Store, name)) > len(kit.Load(t, p.Store, largest)) {
			largest = name
		}
	}
	data := kit.Load(t, p.Store, largest)
	require.NoError(t, p.Store.Put(context.Background(), largest, data[:len(data)*2/3]))
	require.False(t, checkAndRecord(p).OK())
	require.NotZero(t, kit.Count(t, p.Store, store.Mark))
	for info, err := range p.Store.List(context.Background(), store.Index) {
		require.NoError(t, err)
		require.NoError(t, p.Store.Delete(context.Background(), info.Name))
	}
	id, err := format.ParseID(largest.ID)
	require.NoError(t, err)
	for _, unnamed := range []bool{true, false} {
		found, err := repairIndex(p, false)
		require.NoError(t, err)
		require.Equal(t, unnamed, found.Unnamed > 0)
		if unnamed {
			require.Contains(t, found.Lost, id)
		}
	}
}

// TestAPackUnderTheNameOfTheOtherKind is found by every check, also without the key, and no check takes it for intact.
func TestAPackUnderTheNameOfTheOtherKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []pack.Kind{pack.Data, pack.Trees} {
		p := kit.NewPruned(t, mem.New())
		p.Snapshot(1)
		name := packsOf(p, kind)[0]
		id, err := format.ParseID(name.ID)
		require.NoError(t, err)
		id[len(id)-1] ^= 1
		other := object.Named(store.Pack, id)
		require.NoError(t, p.Store.Put(context.Background(), other, kit.Load(t, p.Store, name)))
		found, err := check.WithoutKey(context.Background(), p.Store, 0, report.NewJob(report.Check, time.Now))
		require.NoError(t, err)
		require.Len(t, found.Problems, 1)
		require.Contains(t, found.Problems[0].Object, other.ID)
		found = rolled(p, check.Options{ReadData: true})
		require.Len(t, found.Problems, 1)
		require.Contains(t, found.Problems[0].Object, other.ID)
		for range 2 { // it stays marked
			require.Contains(t, strings.Join(rolled(p, check.Options{ReadData: true}).Notes, " "), "no snapshot needs")
			require.Equal(t, 1, kit.Count(t, p.Store, store.Mark))
		}
	}
}
