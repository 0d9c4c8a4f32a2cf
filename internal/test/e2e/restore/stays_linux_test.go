package restore

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestWhatChangesDuringARestoreStays: a file that another program writes while the restore runs is kept and reported,
// whether that happens before the restore reaches it, or while its replacement is written.
func TestWhatChangesDuringARestoreStays(t *testing.T) {
	testkit.NoLeaks(t)
	top := testkit.TempDir(t)
	src, dst := filepath.Join(top, "src"), filepath.Join(top, "dst")
	write(t, src, "same", "old", "new")
	large := testkit.Noise(1, 3<<20)
	require.NoError(t, os.WriteFile(filepath.Join(src, "large"), large, 0o600))
	st := &kit.OnGet{Store: mem.New(), OnPack: func() {}}
	e := kit.NewEngine(t, st)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	put := func(name, text string, modified time.Time) {
		require.NoError(t, os.WriteFile(filepath.Join(dst, name), []byte(text), 0o600))
		require.NoError(t, os.Chtimes(filepath.Join(dst, name), time.Time{}, modified))
	}
	has := func(name, text string) {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(dst, name))
		require.NoError(t, err)
		require.Equal(t, text, string(content))
	}

	// Nothing was to be replaced when the restore looked.
	put("old", "changed", time.Unix(1e9, 0))
	write(t, dst, "extra")
	totals, err := e.Restore(src, restore.Target{Path: dst, Delete: true, Unasked: true})
	require.NoError(t, err)
	require.EqualValues(t, 2, totals.Failures)
	has("old", "changed")
	has("extra", "extra")

	// The consent covers what was there when it was asked for.
	kit.Settle()
	asked := time.Now().Add(-20 * time.Millisecond) // the times of files are those of the last tick of the kernel
	put("new", "changed later", asked.Add(time.Hour))
	totals, err = e.Restore(src, restore.Target{Path: dst, Delete: true, Asked: asked})
	require.NoError(t, err)
	require.EqualValues(t, 1, totals.Failures)
	has("old", "old")
	has("new", "changed later")

	// It changes between the comparison and the end of its replacement.
	put("large", "an earlier version", time.Unix(1e9, 0))
	var mu sync.Mutex
	reads := 0
	st.OnPack = func() {
		mu.Lock()
		defer mu.Unlock()
		reads++
		put("large", strings.Repeat("x", reads), time.Now())
	}
	e.Open.Cache.Temporary = true
	totals, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Positive(t, reads)
	require.EqualValues(t, 1, totals.Failures)
	has("large", strings.Repeat("x", reads))
	has("new", "new")
	left, err := filepath.Glob(filepath.Join(dst, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
