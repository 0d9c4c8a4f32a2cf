package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// impatient counts reads of packs, and separately those without a cancellable context.
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

// A backup waits for an unresponsive target as long as patience lasts, and no longer than the job runs: each of its
// reads must be cancellable. A directory that was too young for the cache is looked up in the tree of its parent;
// nothing else of that tree is read.
func TestEveryReadOfABackupCanBeCalledOff(t *testing.T) {
	src := filepath.Join(testkit.RamDir(t), "src")
	file := filepath.Join(src, "above/young/file")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("one"), 0o644))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	s := &impatient{Store: e.Store}
	for try := 0; try < 50 && s.reads.Load() == 0; try++ { // a busy machine may let the directory become old
		require.NoError(t, os.WriteFile(file, fmt.Append(nil, "try ", try), 0o644))
		e.Store = s.Store
		_, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		e.Store = s
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err = e.BackupCtx(ctx, e.Job(src))
		cancel()
		require.NoError(t, err)
	}
	require.Positive(t, s.reads.Load())
	require.Zero(t, s.endless.Load())
}
