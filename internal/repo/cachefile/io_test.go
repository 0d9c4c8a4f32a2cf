package cachefile_test

import (
	"testing"
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
