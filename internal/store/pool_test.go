package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// wire is a connection without a server.
type wire struct {
	store.Use
	ended atomic.Bool
}

func (w *wire) Alive() bool { return !w.ended.Load() }
func (w *wire) Retire()     { w.ended.Store(true) }

// dialled counts the connections. Each takes a second; with an error there are none.
type dialled struct {
	n   atomic.Int32
	err atomic.Pointer[error]
}

func (d *dialled) dial(ctx context.Context) (*wire, error) {
	d.n.Add(1)
	if err := store.Sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	if err := d.err.Load(); err != nil {
		return nil, *err
	}
	return &wire{}, nil
}

func TestOneDialsAndTheOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dialled
		p := store.NewPool(2, d.dial)
		refused := errors.New("refused")
		d.err.Store(&refused)
		get := func(want error) (got []*wire) {
			var mu sync.Mutex
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					w, err := p.Get(t.Context())
					mu.Lock()
					defer mu.Unlock()
					got = append(got, w)
					require.ErrorIs(t, err, want)
				})
			}
			all.Wait()
			return got
		}
		get(refused)
		require.EqualValues(t, 1, d.n.Load(), "who has waited shares the failure")

		d.err.Store(nil)
		held := get(nil)
		synctest.Wait()
		require.EqualValues(t, 3, d.n.Load(), "one, and a second in the background while it is used")
		for _, w := range held {
			require.Same(t, held[0], w)
			w.Release()
		}
		time.Sleep(2 * time.Second)
		require.Len(t, p.Live(), 2)
		require.False(t, held[0].Used())

		other := p.Other(held[0])
		require.NotNil(t, other)
		require.NotSame(t, held[0], other)
		d.err.Store(&refused)
		other.Retire()
		for range 4 {
			_, err := p.Get(t.Context())
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
		}
		require.EqualValues(t, 4, d.n.Load(), "a server that refuses another one is left alone for a while")
		require.Len(t, p.End(context.Canceled), 1)
		_, err := p.Get(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		p.Wait()
	})
}

func TestSecondLookTakesAFreshConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dialled
		p := store.NewPool(1, d.dial)
		first, err := p.Get(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		again := store.SecondLook(t.Context())
		second, err := p.Get(again)
		require.NoError(t, err)
		require.NotSame(t, first, second)
		require.True(t, first.Alive(), "it is in use")
		first.Release()
		same, err := p.Get(again)
		require.NoError(t, err)
		require.Same(t, second, same)

		time.Sleep(time.Second)
		third, err := p.Get(store.SecondLook(t.Context()))
		require.NoError(t, err)
		synctest.Wait()
		require.False(t, first.Alive(), "what is not used any more is ended")
		require.Equal(t, []*wire{second, third}, p.Live())
		p.End(context.Canceled)
		p.Wait()
	})
}
