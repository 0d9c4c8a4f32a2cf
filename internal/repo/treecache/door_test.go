package treecache

import (
	"bytes"
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// A cache on a slow disk behind a gate blocks no caller that needs no disk, and cancels without a note.
func TestWaitsAtTheGateWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
		ctx, cancel := context.WithCancel(t.Context())
		dir := t.TempDir()
		c := Open(dir, Options{
			Limit: 1 << 30, Notify: func(text string) { require.Fail(t, "a note", text) },
			Door: localfs.IOContext{Ctx: ctx, Pass: gate.Pass(iopolicy.NewClient(iopolicy.Throttle))},
		})
		c.ready()
		frame := bytes.Repeat([]byte{7}, 300<<10)
		first, second := Key{Pack: format.ID{1}}, Key{Pack: format.ID{2}}
		c.Put(first, frame, Fetched)
		moved := gate.Stats().Moved
		require.EqualValues(t, len(frame), moved.Written)
		back := make([]byte, len(frame))
		require.True(t, c.Get(first, back))
		require.Equal(t, frame, back)
		require.EqualValues(t, len(frame), gate.Stats().Moved.Read)

		done := make(chan bool, 2)
		gate.Shut()
		go func() { c.Put(second, frame, Uploaded); done <- true }()
		go func() { done <- c.Get(first, back) }()
		synctest.Wait()
		require.Empty(t, done)
		require.True(t, c.mu.TryLock(), "a waiting operation does not hold the lock")
		c.mu.Unlock()
		cancel()
		<-done
		<-done
		c.Close()
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.Equal(t, fileName(first), files[0].Name())
	})
}

func TestFramesAreCutInsideAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
		c := Open(t.TempDir(), Options{
			Limit: 1 << 30, Notify: func(string) {},
			Door: localfs.IOContext{Ctx: t.Context(), Pass: gate.Pass(iopolicy.NewClient(iopolicy.Throttle))},
		})
		c.ready()
		grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
		require.NoError(t, err)
		defer grant.End(0)
		start, before := time.Now(), gate.Stats().Charged
		c.Put(Key{}, make([]byte, 300<<10), Fetched)
		require.EqualValues(t, 3, gate.Stats().Charged-before)
		require.Equal(t, 3*25*time.Millisecond, time.Since(start), "three pieces, and the name after the last")
	})
}
