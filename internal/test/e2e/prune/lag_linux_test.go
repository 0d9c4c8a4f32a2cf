package prune

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// remembering is a store as a mounted share shows it: a listing is kept for a while.
type remembering struct {
	store.Store
	keeps time.Duration
	mu    sync.Mutex
	lists map[store.Kind][]store.Info
	since map[store.Kind]time.Time
}

func (r *remembering) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.since[kind]) > r.keeps {
		r.since[kind], r.lists[kind] = time.Now(), nil
		for info, err := range r.Store.List(ctx, kind) {
			if err != nil {
				return func(yield func(store.Info, error) bool) { yield(store.Info{}, err) }
			}
			r.lists[kind] = append(r.lists[kind], info)
		}
	}
	list := r.lists[kind]
	return func(yield func(store.Info, error) bool) {
		for _, info := range list {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// TestPruneBehindListingsThatLag: a backup that does not know of a mark ends after the mark was put. The prune sees
// that the backup has ended, but would not see its snapshot in a listing that the system has kept.
func TestPruneBehindListingsThatLag(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const moment = 400 * time.Millisecond
	// Without a wait, the listing outlasts any prune.
	for settle, keeps := range map[time.Duration]time.Duration{0: time.Hour, moment: moment} {
		p := kit.BesideBase(t)
		inner := p.Store
		marked, published := make(chan struct{}), make(chan struct{})
		var once sync.Once
		begun := make(chan struct{})
		writer := &kit.Engine{T: t, Store: &steps{Store: inner, before: func(op string, name store.Name) {
			if op == "put" && name.Kind == store.Snapshot {
				once.Do(func() { close(begun); <-marked })
			}
		}}, Parallel: p.Parallel, Open: p.Open}
		writer.Open.Cache.Dir = t.TempDir()
		job := p.SmallJob()
		go func() {
			defer close(published)
			if _, _, err := writer.Backup(job); err != nil {
				t.Errorf("backup: %v", err)
			}
		}()
		<-begun
		share := &remembering{Store: inner, keeps: keeps, lists: map[store.Kind][]store.Info{},
			since: map[store.Kind]time.Time{}}
		p.Store = &onMark{share, func() {
			close(marked)
			<-published
			share.mu.Lock()
			for kind := range share.since { // only the folder of snapshots is not listed again
				if kind != store.Snapshot {
					delete(share.since, kind)
				}
			}
			share.mu.Unlock()
		}}
		opt := kit.SmallPrune()
		opt.Settle = settle
		res, err := p.Prune(opt)
		p.Store = inner
		require.NoError(t, err)
		err = p.With(func(r *repo.Repository) error {
			found, err := check.Run(t.Context(), r, check.Options{ReadData: true, Scratch: t.TempDir()},
				report.NewJob(report.Check, time.Now))
			if err == nil && !found.OK() {
				err = errors.New("damaged")
			}
			return err
		})
		if settle == 0 {
			require.Error(t, err, "the test proves nothing")
			continue
		}
		require.NoError(t, err)
		require.NotZero(t, res.Revived)
	}
}
