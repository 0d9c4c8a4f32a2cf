package read

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A run with two buffers in flight at a time allocates two, however many it gets.
func TestBuffersAreMadeWhenNeeded(t *testing.T) {
	b := NewBuffers(20, 16)
	require.Equal(t, 16, b.Size())
	made := map[*byte]bool{}
	for range 100 {
		one, err := b.Get(t.Context())
		require.NoError(t, err)
		two, err := b.Get(t.Context())
		require.NoError(t, err)
		require.Len(t, one, 16)
		made[&one[0]], made[&two[0]] = true, true
		b.Put(one)
		b.Put(two)
		last, err := b.Get(t.Context())
		require.NoError(t, err)
		require.Same(t, &two[0], &last[0], "the one put back last is lent first")
		b.Put(last)
	}
	require.Len(t, made, 2)
}

func TestBuffersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBuffers(2, 1)
		one, err := b.Get(t.Context())
		require.NoError(t, err)
		_, err = b.Get(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan []byte)
		go func() {
			buf, _ := b.Get(t.Context())
			got <- buf
		}()
		synctest.Wait() // the third Get blocks
		select {
		case <-got:
			t.Fatal("there are only two")
		default:
		}
		cancel(context.DeadlineExceeded)
		_, err = b.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		b.Put(one)
		require.Same(t, &one[0], &(<-got)[0])
	})
}

// No buffer is lent twice at a time, and there are never more than the limit.
func TestBuffersBelongToOne(t *testing.T) {
	const most = 3
	b := NewBuffers(most, 1)
	var group sync.WaitGroup
	var mu sync.Mutex
	lent, made := map[*byte]bool{}, map[*byte]bool{}
	for range 16 {
		group.Go(func() {
			for range 200 {
				buf, err := b.Get(context.Background())
				mu.Lock()
				if err != nil || lent[&buf[0]] {
					t.Error("lent twice")
				}
				lent[&buf[0]], made[&buf[0]] = true, true
				mu.Unlock()
				mu.Lock()
				delete(lent, &buf[0])
				mu.Unlock()
				b.Put(buf)
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, len(made), most)
}
