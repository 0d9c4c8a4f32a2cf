package enginetest

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// impatient counts reads of packs, and those that nobody could call off.
type impatient struct {
	store.Store
	reads, endless atomic.Int64
}

func (s *impatient) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Pack {
		s.reads.Add(1)
		if ctx.Done() == nil {
			s.endless.Add(1)
		}
	}
	return s.Store.Get(ctx, name, off, p)
}

// A target that does not answer is waited for as long as patience lasts, and no longer than the job: whatever a backup reads
// there, it must be able to call off. A directory that was too young to be remembered is looked up in the tree of the one
// above it, of which nothing else is read.
func TestEveryReadOfABackupCanBeCalledOff(t *testing.T) {
	src := filepath.Join(ramDir(t), "src")
	file := filepath.Join(src, "above/young/file")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("one"), 0o644))
	settle()
	e := newEngine(t, nil)
	require.NoError(t, os.WriteFile(file, []byte("two"), 0o644))
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	s := &impatient{Store: e.st}
	e.st = s
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _, err = e.backupCtx(ctx, e.job(src))
	require.NoError(t, err)
	require.Positive(t, s.reads.Load())
	require.Zero(t, s.endless.Load())
}
