package enginetest

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// TestHealedCopyStaysTheOneThatCounts: a pack of trees is damaged, and the next backup stores anew what lay there. A prune
// that would have to write the segment of the damaged pack anew, because another pack that it names goes, must not have the
// damaged copy count again: that would lose what was healed.
func TestHealedCopyStaysTheOneThatCounts(t *testing.T) {
	limits := []prune.Limit{{None: true}, {Percent: 5}}
	if testing.Short() {
		limits = limits[:1]
	}
	for _, limit := range limits {
		t.Run(fmt.Sprintf("%+v", limit), func(t *testing.T) {
			p := newPruned(t, mem.New())
			for _, folder := range []string{"a", "b"} {
				require.NoError(t, os.Mkdir(filepath.Join(p.src, folder), 0o755))
				for i := range 3800 {
					name := hex.EncodeToString(testkit.Noise(uint64(i), 120))
					require.NoError(t, os.WriteFile(filepath.Join(p.src, folder, name), nil, 0o644))
				}
			}
			trash := filepath.Join(p.src, "trash")
			require.NoError(t, os.WriteFile(trash, testkit.Noise(77, 2_000_000), 0o644))
			backUp := func() format.ID {
				settle()
				job := p.job(p.src)
				one := backup.Range{Start: 1}
				job.Parallel = backup.Parallel{Scanners: 1, Readers: one, Workers: one} // folder a is stored before b
				out, _, err := p.backup(job)
				require.NoError(t, err)
				p.keep(out.ID)
				return out.ID
			}
			first := backUp()
			trees := p.packOfTrees()
			require.NoError(t, os.Remove(trash))
			backUp()
			data := load(t, p.st, trees)
			data[len(data)/10] ^= 1 // in a frame that has nothing but entries of a
			require.NoError(t, p.st.Delete(context.Background(), trees))
			require.NoError(t, p.st.Put(context.Background(), trees, data))
			p.open.CacheDir = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(p.src, "b", "new"), nil, 0o644))
			backUp()
			p.forget(first)
			p.requireRestorable("healed", true)

			for range 2 { // what the first holds back, the second makes way for
				forecast, err := p.prune(prune.Options{MaxUnused: limit, DryRun: true})
				require.NoError(t, err)
				res, err := p.prune(prune.Options{MaxUnused: limit})
				require.NoError(t, err)
				require.Equal(t, foretold(res), foretold(forecast))
				p.requireRestorable("after a prune", true)
				if limit.None {
					require.NotZero(t, res.Held)
					require.Zero(t, res.Deleted.Packs)
				}
			}
			if !limit.None {
				p.requireSound()
				require.Zero(t, count(t, p.st, store.Mark))
			}
		})
	}
}

// foretold is what a dry run says exactly.
func foretold(r *prune.Result) [6]any {
	return [6]any{r.Before, r.Deleted, r.Condemned, r.Repacked, r.Held, r.Pardoned}
}

// noRoom is a store that takes nothing more.
type noRoom struct{ store.Store }

func (noRoom) Put(context.Context, store.Name, []byte) error { return store.ErrNoSpace }

// TestPruneWithoutRoomToBegin: who cannot even say that it is at work is told what helps, and not to prune.
func TestPruneWithoutRoomToBegin(t *testing.T) {
	p := newPruned(t, mem.New())
	p.forget(p.snapshot(1))
	p.snapshot(2)
	inner := p.st
	for _, limit := range []prune.Limit{{None: true}, {Percent: 5}} {
		p.st = noRoom{inner}
		_, err := p.prune(prune.Options{MaxUnused: limit})
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.ErrorContains(t, err, "enlarge")
		require.NotContains(t, err.Error(), "anew")
		p.st = inner
	}
	p.requireRestorable("nothing was done", true)
}

// TestPruneBesideAPipe: something else in the place of the file that prunes lock keeps none from its work.
func TestPruneBesideAPipe(t *testing.T) {
	p := newPruned(t, mem.New())
	p.forget(p.snapshot(1))
	p.snapshot(2)
	opt := smallPrune()
	opt.Scratch = t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(opt.Scratch, "prune.lock"), 0o600))
	res, err := p.prune(opt)
	require.NoError(t, err)
	require.NotZero(t, res.Deleted.Packs)
	p.requireWhole("after the prune")
}

// packOfTrees returns the only pack of trees.
func (p *pruned) packOfTrees() (name store.Name) {
	p.t.Helper()
	require.NoError(p.t, p.with(func(r *repo.Repository) error {
		for info, err := range p.st.List(context.Background(), store.Pack) {
			require.NoError(p.t, err)
			table, err := pack.OpenTable(r.Keys(), info.Size, func(off int64, b []byte) error {
				return p.st.Get(context.Background(), info.Name, off, b)
			})
			require.NoError(p.t, err)
			if table.Kind == pack.Trees {
				require.Empty(p.t, name.ID)
				name = info.Name
			}
		}
		return nil
	}))
	return name
}
