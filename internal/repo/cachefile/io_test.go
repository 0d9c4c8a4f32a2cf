package cachefile_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func newGate() *iopolicy.Gate {
	return iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
}

func passOf(gate *iopolicy.Gate) *iopolicy.Pass {
	return gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
}

// Each transaction is one operation, in one period, with the bytes that it has written.
func TestTransactionsPassTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		f, err := cachefile.Open(filepath.Join(t.TempDir(), "cache.db"), repo,
			localfs.IOContext{Ctx: t.Context(), Pass: passOf(gate)}, table())
		require.NoError(t, err)
		c := newUser(f)
		defer func() { require.NoError(t, c.Close()) }()
		page := uint64(c.DB().Info().PageSize)
		made := gate.Stats()
		require.GreaterOrEqual(t, made.Moved.Written, 5*page)
		grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
		require.NoError(t, err)
		defer grant.End(0)
		time.Sleep(time.Second)
		start := time.Now()
		for i := range uint32(5) {
			require.NoError(t, c.SetValue("test", []byte{byte(i)}))
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

// flushes is a watcher that records how many flushes had begun when it last looked.
type flushes struct{ begun uint64 }

func (*flushes) Interval() time.Duration { return 0 }

func (f *flushes) Look(m iopolicy.Moment) iopolicy.Sighting {
	f.begun = m.Synced
	return iopolicy.Sighting{}
}

// A plain file is written, flushed and read through the gate, with each byte and flush counted: one that the gate does
// not know of counts as one of others.
func TestPlainFilesPassTheGate(t *testing.T) {
	var seen flushes
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings(), Watcher: &seen})
	f, err := cachefile.Create(t.TempDir(), "run-", localfs.IOContext{Ctx: t.Context(), Pass: passOf(gate)})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	_, err = f.WriteAt(make([]byte, 3_000_000), 0)
	require.NoError(t, err)
	require.EqualValues(t, 3_000_000, gate.Stats().Moved.Written)
	require.Zero(t, seen.begun)
	require.NoError(t, f.Sync())
	require.EqualValues(t, 1, seen.begun)
	f.Prefetch()
	require.EqualValues(t, 3_000_000, gate.Stats().Moved.Read)
}
