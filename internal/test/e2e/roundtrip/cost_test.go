package roundtrip

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// puts counts the files written to a store. Each write is flushed to its device.
type puts struct {
	store.Store
	mu    sync.Mutex
	files map[store.Kind]int
	bytes int
}

func (p *puts) Put(ctx context.Context, name store.Name, data []byte) error {
	p.mu.Lock()
	p.files[name.Kind]++
	p.bytes += len(data)
	p.mu.Unlock()
	return p.Store.Put(ctx, name, data)
}

func (p *puts) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	p.mu.Lock()
	p.files[name.Kind]++
	p.bytes += len(data)
	p.mu.Unlock()
	return p.Store.PutNew(ctx, name, data)
}

// smallFiles makes n files of up to 4 KiB in directories of 50. A third are copies.
func smallFiles(t *testing.T, dir string, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var contents [][]byte
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("%03d", i/50))
		if i%50 == 0 {
			require.NoError(t, os.MkdirAll(sub, 0o755))
		}
		var content []byte
		if i%3 == 2 {
			content = contents[r.IntN(len(contents))]
		} else {
			for size := r.IntN(4096); len(content) < size; {
				content = fmt.Appendf(content, "%d lines of %x\n", r.IntN(1000), r.IntN(1<<20))
			}
			contents = append(contents, content)
		}
		require.NoError(t, os.WriteFile(filepath.Join(sub, fmt.Sprintf("file %d.txt", i)), content, 0o600))
	}
}

// TestFirstBackupCost bounds the machine-independent cost of a first backup of small files: allocations for each file,
// and flushes of the target.
func TestFirstBackupCost(t *testing.T) {
	const few, many = 500, 2500
	cost := func(n int) (mallocs uint64, st *puts) {
		dir := filepath.Join(testkit.RamDir(t), "src")
		smallFiles(t, dir, n)
		st = &puts{Store: mem.New(), files: map[store.Kind]int{}}
		e := kit.NewEngine(t, st)
		clear(st.files)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := e.Backup(e.Job(dir))
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		require.Empty(t, e.Failures())
		return after.Mallocs - before.Mallocs, st
	}
	fixed, _ := cost(few)
	total, st := cost(many)
	perFile := float64(total-fixed) / (many - few)
	t.Logf("%.1f allocations a file, %v files put", perFile, st.files)
	require.Less(t, perFile, 5.0)
	require.Equal(t, 2, st.files[store.Pack], "one of data, one of trees")
	require.Equal(t, 1, st.files[store.Index])
	require.Equal(t, 1, st.files[store.Snapshot])
}

// TestUnchangedBackupCost bounds the allocations of a backup that finds nothing new: a few for each directory, none for
// a file.
func TestUnchangedBackupCost(t *testing.T) {
	testkit.Slow(t)
	const few, many = 1000, 6000
	cost := func(n int) uint64 {
		dir := filepath.Join(testkit.RamDir(t), "src")
		smallFiles(t, dir, n)
		e := kit.NewEngine(t, mem.New())
		kit.Settle()
		_, _, err := e.Backup(e.Job(dir))
		require.NoError(t, err)
		least := uint64(math.MaxUint64)
		for range 3 { // what else goes on in this process allocates too, at times
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, ledger, err := e.Backup(e.Job(dir))
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			require.Empty(t, e.Failures())
			require.LessOrEqual(t, ledger.Trees.New, uint64(strings.Count(dir, "/")),
				"unchanged, but for folders on the way, in which others work")
			least = min(least, after.Mallocs-before.Mallocs)
		}
		return least
	}
	fixed, total := cost(few), cost(many)
	perDir := (float64(total) - float64(fixed)) / ((many - few) / 50)
	t.Logf("%.1f allocations a directory", perDir)
	most := 10.0 // 1 to 2; one for each file would be 50
	if testkit.Raced() {
		most = 25 // 3 to 5, and 11 beside other tests
	}
	require.Less(t, perDir, most)
}
