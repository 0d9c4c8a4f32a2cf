package scale

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestWalkCountsWhatWasMade(t *testing.T) {
	root := filepath.Join(testkit.RamDir(t), "tree")
	made, err := Shape{Files: 2000, Seed: 1}.Make(t.Context(), root)
	require.NoError(t, err)
	n, err := kit.Count(root)
	require.NoError(t, err)
	require.Equal(t, made.Objects(), uint64(n)+1, "the root is not counted")
	_, err = kit.Count(filepath.Join(root, "nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStatusIsRead(t *testing.T) {
	text := "Name:\tx\nVmHWM:\t  2048 kB\nRssAnon:\t 1024 kB\nRssFile:\t 12 kB\nRssShmem:\t 4 kB\nThreads:\t7\n"
	require.Equal(t, memory{2 << 20, 1 << 20, 16 << 10}, parseStatus([]byte(text)))
	if runtime.GOOS == "linux" {
		stop := watchMemory(os.Getpid())
		m := stop()
		require.Greater(t, m.Peak, int64(1<<20))
		require.GreaterOrEqual(t, m.Peak, m.Anon)
	}
}

// A whole run at a size that takes a second: every step is there, and what is left is accounted for to the byte.
func TestMeasuresASmallTree(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the whole program")
	}
	dir := testkit.RamDir(t)
	program := filepath.Join(dir, "tidemark")
	testkit.Build(t, "tidemark", program)
	tree := filepath.Join(dir, "tree")
	shape := Shape{Files: 2000, Seed: 1}
	made, err := shape.Make(t.Context(), tree)
	require.NoError(t, err)
	b := &bench{
		settings: settings{program: program, rounds: 1, policy: "important"},
		dir:      dir, tree: tree, shape: shape, result: scale{Tree: made},
	}
	b.walk = func(context.Context, int) error { // this program is a test and cannot be started as a walk
		b.result.Steps = append(b.result.Steps, measurement{Step: stepWalk, Round: 1, Seconds: 1, CPU: 1,
			Objects: made.Objects()})
		return nil
	}
	require.NoError(t, b.steps(t.Context()))
	require.Equal(t, []string{stepFirst, stepWalk, stepUnchanged, stepChanged, stepList, stepCheck,
		stepRestore, stepForget,
		stepPrune},
		stepNames(b.result))
	e := b.result.Pruned
	total := int64(0)
	require.NoError(t, eachFile(b.repo(), func(_, _ string, size int64) error { total += size; return nil }))
	require.Equal(t, total, e.Data+e.metadata())
	for _, part := range []int64{e.Data, e.Tables, e.Trees, e.Index, e.Other, e.Cache} {
		require.Positive(t, part)
	}
	require.Contains(t, table(b.result), "unchanged against the serial walk")
	require.Contains(t, curve([]scale{b.result, b.result}), "2000")
}
