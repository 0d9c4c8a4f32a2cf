package roundtrip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// held is a store that takes no packs until it is let go.
type held struct {
	store.Store
	free chan struct{}
}

func (h *held) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Pack {
		<-h.free
	}
	return h.Store.Put(ctx, name, data)
}

// TestFirstBackupCounts: a first backup knows how much there is long before it has read it, without what the rules
// exclude. One with a parent takes the parent's totals.
func TestFirstBackupCounts(t *testing.T) {
	testkit.Slow(t)
	testkit.NoLeaks(t)
	const files, excluded, size = 12000, 500, 8192
	dir := filepath.Join(testkit.RamDir(t), "src")
	r := rand.NewChaCha8([32]byte{1})
	content := make([]byte, size)
	for i := range files + excluded {
		name := "keep"
		if i >= files {
			name = "drop.o"
		}
		_, _ = r.Read(content)
		sub := filepath.Join(dir, fmt.Sprint(i/100))
		require.NoError(t, os.MkdirAll(sub, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(sub, fmt.Sprint(i, name)), content, 0o600))
	}
	st := &held{Store: mem.New(), free: make(chan struct{})}
	e := kit.NewEngine(t, st)
	e.Parallel = kit.Parallel(1, 1, 1)
	job := e.Job(dir)
	job.Session.Memory, job.Session.Uploads = 16<<20, 1
	b := rules.NewBuilder()
	require.NoError(t, b.Exclude("*.o", false, "test"))
	job.Source.Rules = b.Compile()
	started, ended := make(chan struct{}), make(chan error, 1)
	job.Phases.Begin = func(bool) { close(started) }
	go func() {
		_, _, err := e.Backup(job)
		ended <- err
	}()
	<-started
	expected := func() report.Expected {
		totals := e.Ledger.Snapshot()
		return totals.Expected
	}
	require.Eventually(t, func() bool { return expected().Bytes == files*size && !expected().Growing }, 20*time.Second,
		10*time.Millisecond)
	require.False(t, expected().Exact, "the scan waits for the store, so this was counted")
	totals := e.Ledger.Snapshot()
	require.Less(t, totals.Objects.Inspected, uint64(files))
	counted := expected().Objects
	close(st.free)
	require.NoError(t, <-ended)
	require.Equal(t, report.Expected{Objects: counted, Bytes: files * size, Exact: true}, expected())
	totals = e.Ledger.Snapshot()
	require.Equal(t, totals.Objects.Inspected, counted, "the count is no part of the report")
}
