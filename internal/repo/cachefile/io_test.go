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

// A flush that the gate does not know of counts as one of others. A file that is written once has two: bbolt flushes
// the first pages of an empty one, whatever its options say.
func TestFlushesOfAFileThatIsWrittenOnceAreKnown(t *testing.T) {
	var seen flushes
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings(), Watcher: &seen})
	f, err := cachefile.Create(t.TempDir(), "run-", repo, localfs.IOContext{Ctx: t.Context(), Pass: passOf(gate)},
		table())
	require.NoError(t, err)
	c := newUser(f)
	defer func() { require.NoError(t, c.Close()) }()
	require.EqualValues(t, 1, seen.begun)
	require.NoError(t, c.SetValue("test", []byte{1}))
	require.EqualValues(t, 1, seen.begun)
	require.NoError(t, f.Finish())
	require.EqualValues(t, 2, seen.begun)
}

// The file is read through the gate, in pieces as that allows.
func TestPrefetchPassesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		f, err := cachefile.Open(filepath.Join(t.TempDir(), "cache.db"), repo,
			localfs.IOContext{Ctx: t.Context(), Pass: passOf(gate)}, table())
		require.NoError(t, err)
		c := newUser(f)
		defer func() { require.NoError(t, c.Close()) }()
		st, err := c.OSFile().Stat()
		require.NoError(t, err)
		before := gate.Stats()
		c.Prefetch()
		after := gate.Stats()
		require.EqualValues(t, st.Size(), after.Moved.Read-before.Moved.Read)
	})
}

func TestCreatedFilePassesTheGateToo(t *testing.T) {
	gate := newGate()
	f, err := cachefile.Create(t.TempDir(), "tmp-", repo, localfs.IOContext{Ctx: t.Context(), Pass: passOf(gate)},
		table())
	require.NoError(t, err)
	before := gate.Stats().Moved.Written
	require.NotZero(t, before)
	require.NoError(t, f.SetValue("test", []byte{1}))
	require.Greater(t, gate.Stats().Moved.Written, before)
	operations := gate.Stats().Operations
	require.NoError(t, f.Finish())
	require.Greater(t, gate.Stats().Operations, operations)
	require.NoError(t, f.Close())
}
