package prune

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// atMark prunes, without repacking, so that there is one mark. Just before that is put, it calls do.
// It returns the packs that were read until then, and after.
func atMark(p *kit.Pruned, do func()) (before, after []store.Name, err error) {
	p.T.Helper()
	inner := p.Store
	var mu sync.Mutex
	marked := false
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case op == "put" && name.Kind == store.Mark:
			marked = true
			do()
		case op == "get" && name.Kind == store.Pack && marked:
			after = append(after, name)
		case op == "get" && name.Kind == store.Pack:
			before = append(before, name)
		}
	}}
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{None: true}
	_, err = p.Prune(opt)
	p.Store = inner
	require.True(p.T, marked)
	return before, after, err
}

// TestAPruneFollowsASnapshotOnce: after the mark it reads trees only if there is a new snapshot.
func TestAPruneFollowsASnapshotOnce(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.BesideBase(t)
	for _, beside := range []bool{false, true} {
		p := base.Copied(t)
		inner := p.Store
		p.Open.Cache.Frames = 1 // each reading of a tree reads the target
		before, after, err := atMark(p, func() {
			if beside {
				out, _, err := p.Elsewhere(inner).Backup(p.SmallJob())
				require.NoError(t, err)
				p.Keep(out.ID)
			}
		})
		require.NoError(t, err)
		p.RequireWhole("after the prune")
		var trees [2]int // reads of trees that are still there: before the mark, and after it
		for _, in := range newAdder(p).packs {
			for i, read := range [][]store.Name{before, after} {
				if in.Table.Kind == pack.Trees && slices.Contains(read, object.Named(store.Pack, in.ID)) {
					trees[i]++
				}
			}
		}
		require.NotZero(t, trees[0])
		require.Equal(t, beside, trees[1] > 0, "%v", trees)
	}
}

// TestTheSecondSurveyFindsWhatIsMissingByThen: what the first survey reached must be in an existing pack when packs are
// removed, unless only a snapshot needed it that was forgotten meanwhile. A snapshot that cannot be read any more ends
// the prune too.
func TestTheSecondSurveyFindsWhatIsMissingByThen(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	old := base.Snapshot(1)
	base.Snapshot(2)
	had := kit.EveryFile(t, base.Store)
	last := base.Snapshot(3)
	name := object.Named(store.Snapshot, last)
	for _, what := range []string{"needed", "forgotten", "unreadable"} {
		t.Run(what, func(t *testing.T) {
			p := base.Copied(t)
			p.Forget(old)
			inner := p.Store
			packs := 0
			_, _, err := atMark(p, func() {
				for _, own := range kit.EveryFile(t, base.Store) {
					if own.Kind == store.Pack && !slices.Contains(had, own) && what != "unreadable" {
						require.NoError(t, inner.Delete(t.Context(), own))
					}
				}
				switch what {
				case "forgotten":
					require.NoError(t, inner.Delete(t.Context(), name))
					delete(p.Contents, last)
				case "unreadable":
					require.NoError(t, inner.Put(t.Context(), name, []byte("no snapshot")))
				}
				packs = kit.Count(t, inner, store.Pack)
			})
			if what == "forgotten" {
				require.NoError(t, err)
				require.Less(t, kit.Count(t, inner, store.Pack), packs)
				p.RequireRestorable("after the prune", true)
				return
			}
			require.ErrorIs(t, err, prune.ErrDamaged)
			require.Equal(t, packs, kit.Count(t, inner, store.Pack), "nothing is removed")
		})
	}
}
