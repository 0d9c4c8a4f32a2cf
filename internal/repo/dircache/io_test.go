package dircache

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func newGate() *iopolicy.Gate {
	return iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
}

func passOf(gate *iopolicy.Gate) *iopolicy.Pass {
	return gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
}

func dirKey(i int) (key [16]byte) {
	binary.BigEndian.PutUint64(key[:], uint64(i)*0x9e3779b97f4a7c15)
	return key
}

// The temporary file is written through the gate. While it waits there, others go on until a second buffer is full.
func TestSpillWaitsWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		c, _, err := Open(t.TempDir(), repo, localfs.IOContext{Ctx: t.Context(), Pass: passOf(gate)})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		b := c.NewBatch()
		value := make([]byte, 1<<10)
		b.limit = 100 * (len(value) + entryOverhead)
		gate.Shut()
		put := make(chan int, 1000)
		go func() {
			for i := range 100 {
				require.NoError(t, b.Put(dirKey(i), value))
				put <- i
			}
			require.NoError(t, b.Put(dirKey(100), value)) // has to spill
			put <- 100
		}()
		synctest.Wait()
		require.Len(t, put, 100)
		go func() {
			for i := 101; i < 300; i++ {
				require.NoError(t, b.Put(dirKey(i), value))
				put <- i
			}
		}()
		synctest.Wait()
		require.Len(t, put, 200, "one buffer waits, another is full")
		b.Keep(1) // takes the lock
		gate.Open()
		synctest.Wait()
		require.Len(t, put, 300)
		snapshot := format.ID{1}
		require.NoError(t, c.SetLiveSnapshots([]format.ID{snapshot}))
		require.NoError(t, b.Commit(snapshot, nil))
		for i := range 300 {
			hit, ok, err := c.Lookup(dirKey(i), nil)
			require.NoError(t, err)
			require.True(t, ok, i)
			require.Equal(t, value, hit.Value)
		}
	})
}

// What is cancelled while it waits changes nothing, and the cache stays as good as it was.
func TestCalledOffWritesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		path := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		c, _, err := Open(path, repo, localfs.IOContext{Ctx: ctx, Pass: passOf(gate)})
		require.NoError(t, err)
		require.NoError(t, c.SetValue("first", []byte{1}))
		b := c.NewBatch()
		b.limit = 1
		require.NoError(t, b.Put(dirKey(0), []byte("x")))
		gate.Shut()
		done := make(chan error, 3)
		go func() { done <- c.SetValue("second", []byte{2}) }()
		go func() { done <- b.Put(dirKey(1), []byte("y")) }()
		synctest.Wait()
		require.Empty(t, done)
		cancel()
		for range 2 {
			require.ErrorIs(t, <-done, localfs.ErrStopped)
		}
		require.ErrorIs(t, b.Commit(format.ID{1}, nil), localfs.ErrStopped)
		require.NoError(t, b.Discard())
		_, _, err = Open(t.TempDir(), repo, localfs.IOContext{Ctx: ctx, Pass: passOf(gate)})
		require.ErrorIs(t, err, localfs.ErrStopped)
		require.NoError(t, c.Close())
		// An Open that is cancelled does not take the cache for one to be replaced.
		_, _, err = Open(path, repo, localfs.IOContext{Ctx: ctx})
		require.ErrorIs(t, err, localfs.ErrStopped)
		c = openAt(t, path)
		defer func() { require.NoError(t, c.Close()) }()
		for name, want := range map[string][]byte{"first": {1}, "second": nil} {
			value, err := c.Value(name)
			require.NoError(t, err)
			require.Equal(t, want, value)
		}
		require.Equal(t, []string{stateName}, files(t, c), "no temporary files")
	})
}
