package hashcache

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func newGate() *iopolicy.Gate {
	return iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.Default()})
}

func passOf(gate *iopolicy.Gate) *iopolicy.Pass {
	return gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
}

func segmentOf(i uint32) (id format.ID, seg *index.Segment) {
	binary.BigEndian.PutUint32(id[:], i+1)
	return id, &index.Segment{}
}

func dirKey(i int) (key [16]byte) {
	binary.BigEndian.PutUint64(key[:], uint64(i)*0x9e3779b97f4a7c15)
	return key
}

// Each transaction is one operation, in one period, and tells what it has written.
func TestTransactionsAreBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		c, err := Open(filepath.Join(t.TempDir(), "cache.db"), repo, Door{Ctx: t.Context(), Pass: passOf(gate)})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		page := uint64(c.db.Info().PageSize)
		made := gate.Stats()
		require.GreaterOrEqual(t, made.Moved.Written, 5*page)
		grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
		require.NoError(t, err)
		defer grant.End(0)
		time.Sleep(time.Second)
		start := time.Now()
		for i := range uint32(5) {
			require.NoError(t, c.Merge(segmentOf(i)))
		}
		after := gate.Stats()
		require.EqualValues(t, 5, after.Operations-made.Operations-1)
		require.EqualValues(t, 5, after.Charged-made.Charged)
		require.Equal(t, 4*25*time.Millisecond, time.Since(start))
		moved := after.Moved.Written - made.Moved.Written
		require.GreaterOrEqual(t, moved, 5*3*page, "a leaf, the root, the head of the file")
		require.Less(t, moved, 5*20*page)
	})
}

// The file is read through the gate, in pieces as that allows, and a long one not at all.
func TestWarmIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		c, err := Open(filepath.Join(t.TempDir(), "cache.db"), repo, Door{Ctx: t.Context(), Pass: passOf(gate)})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		st, err := c.file.Stat()
		require.NoError(t, err)
		before := gate.Stats()
		c.Warm()
		after := gate.Stats()
		require.EqualValues(t, st.Size(), after.Moved.Read-before.Moved.Read)
		require.NoError(t, c.file.Truncate(warmEnough+1))
		c.Warm()
		require.Equal(t, after.Operations, gate.Stats().Operations)
		require.NoError(t, c.file.Truncate(st.Size()))
	})
}

// The temporary file is written through the gate. While it waits there, others go on until a second buffer is full.
func TestSpillWaitsWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		c, err := Open(filepath.Join(t.TempDir(), "cache.db"), repo, Door{Ctx: t.Context(), Pass: passOf(gate)})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		b := c.NewDirBatch()
		value := make([]byte, 1<<10)
		b.limit = 100 * (len(value) + entryBytes)
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
		require.NoError(t, b.Commit(snapshot))
		for i := range 300 {
			hit, ok, err := c.Dir(dirKey(i), nil)
			require.NoError(t, err)
			require.True(t, ok, i)
			require.Equal(t, value, hit.Value)
		}
	})
}

// What is called off while it waits changes nothing, and the cache stays as good as it was.
func TestCalledOffWritesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		path := filepath.Join(t.TempDir(), "cache.db")
		ctx, cancel := context.WithCancel(t.Context())
		c, err := Open(path, repo, Door{Ctx: ctx, Pass: passOf(gate)})
		require.NoError(t, err)
		require.NoError(t, c.Merge(segmentOf(0)))
		b := c.NewDirBatch()
		b.limit = 1
		require.NoError(t, b.Put(dirKey(0), []byte("x")))
		gate.Shut()
		done := make(chan error, 3)
		go func() { done <- c.Merge(segmentOf(1)) }()
		go func() { done <- b.Put(dirKey(1), []byte("y")) }()
		synctest.Wait()
		require.Empty(t, done)
		cancel()
		for range 2 {
			require.ErrorIs(t, <-done, ErrStopped)
		}
		require.ErrorIs(t, b.Commit(format.ID{1}), ErrStopped)
		require.NoError(t, b.Discard())
		_, err = Open(filepath.Join(t.TempDir(), "other.db"), repo, Door{Ctx: ctx, Pass: passOf(gate)})
		require.ErrorIs(t, err, ErrStopped)
		require.NoError(t, c.Close())
		// An Open that is called off does not take the file for one to be replaced.
		_, err = Open(path, repo, Door{Ctx: ctx})
		require.ErrorIs(t, err, ErrStopped)
		c, err = Open(path, repo, Door{})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		ids, err := c.Segments()
		require.NoError(t, err)
		require.Len(t, ids, 1)
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, left, 1, "no temporary files")
	})
}

func TestTemporaryCacheIsBookedToo(t *testing.T) {
	gate := newGate()
	c, err := OpenTemp(t.TempDir(), repo, Door{Ctx: t.Context(), Pass: passOf(gate)})
	require.NoError(t, err)
	before := gate.Stats().Moved.Written
	require.NotZero(t, before)
	require.NoError(t, c.Merge(segmentOf(1)))
	require.Greater(t, gate.Stats().Moved.Written, before)
	require.NoError(t, c.Close())
}
