package prune

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
)

// Coherent makes a session list at once what it needs.
func (s *steps) Coherent() bool { return store.Coherent(s.Store) }

// Unfenced passes on.
func (s *steps) Unfenced(ctx context.Context, name store.Name) (time.Time, error) {
	s.before("stat", name)
	return store.Unfenced(ctx, s.Store, name)
}

// lateMarks lists the marks last: all other listings have ended, and then it waits.
type lateMarks struct {
	*mem.Store
	others sync.WaitGroup // first listings of index, packs and snapshots
	once   map[store.Kind]*sync.Once
	wait   chan struct{}
}

func newLateMarks(st *mem.Store) *lateMarks {
	l := &lateMarks{Store: st, once: make(map[store.Kind]*sync.Once), wait: make(chan struct{})}
	for _, kind := range []store.Kind{store.Index, store.Pack, store.Snapshot} {
		l.once[kind] = &sync.Once{}
	}
	l.others.Add(len(l.once))
	return l
}

func (l *lateMarks) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if kind == store.Mark {
			<-l.wait
		}
		l.Store.List(ctx, kind)(yield)
		if once := l.once[kind]; once != nil {
			once.Do(l.others.Done)
		}
	}
}

// TestAMarkStaysForAWriterThatHasReadTheIndex: a prune that has found its mark ripe stands still. A backup begins. It
// lists index, packs and snapshots, among them one that needs a doomed pack, which is forgotten next. The prune then
// removes the packs and ends, and only now the backup lists the marks. It must not take the forgotten snapshot's trees
// over.
func TestAMarkStaysForAWriterThatHasReadTheIndex(t *testing.T) {
	t.Parallel()
	p := kit.BesideBase(t)
	inner := p.Store.(*mem.Store)
	var marked sync.Once
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		if op == "put" && name.Kind == store.Snapshot {
			marked.Do(func() {
				_, err := p.Elsewhere(inner).Prune(kit.SmallPrune())
				require.NoError(t, err)
			})
		}
	}}
	needs, _, err := p.Backup(p.SmallJob()) // relies on packs that are marked while it runs
	require.NoError(t, err)
	p.Store = inner
	p.Keep(needs.ID)
	require.Equal(t, 1, countMarks(t, inner))

	late := newLateMarks(inner)
	writer := &kit.Engine{T: t, Store: late, Parallel: p.Parallel, Open: p.Open}
	var out *backup.Outcome
	ended := make(chan error, 1)
	var began sync.Once
	pruning := p.Elsewhere(inner)
	pruning.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		if op == "list" && name.Kind == store.Snapshot {
			began.Do(func() {
				go func() {
					ended <- writer.With(func(r *repo.Repository) (err error) {
						out, err = backup.Run(context.Background(), r, p.SmallJob(), report.New(time.Now))
						return err
					})
				}()
				late.others.Wait()
				p.Elsewhere(inner).Forget(needs.ID)
			})
		}
	}}
	res, err := pruning.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.NotZero(t, res.Deleted.Packs)
	require.NotZero(t, countMarks(t, inner), "the writer has not read it")
	close(late.wait)
	require.NoError(t, <-ended)
	p.Keep(out.ID)
	require.NotEmpty(t, out.Snapshot.Acknowledged)
	p.RequireWhole("a backup that read the index before the prune ended")
	_, err = p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.Zero(t, countMarks(t, inner))
	p.RequireWhole("after the next prune")
}
