package change

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// Where the holes of a file system are not believed, zeros are found while reading: they are not stored, and the
// content comes back byte for byte.
func TestZerosAreFoundWhileReading(t *testing.T) {
	testkit.Slow(t)
	src := testkit.RamDir(t)
	data := testkit.Noise(1, 3<<20)
	zeros := make([]byte, 24<<20)
	files := map[string][]byte{
		"between": bytes.Join([][]byte{data, zeros, data[:1<<20]}, nil),
		"only":    zeros, "end": append(bytes.Clone(data), zeros...), "one": append(bytes.Clone(zeros), 1),
		"small": zeros[:100_000], "tiny": zeros[:10],
	}
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(src, name), content, 0o644))
	}
	kit.Settle()
	stored := map[bool]uint64{}
	for _, holes := range []bool{false, true} {
		e := kit.NewEngine(t, nil)
		job := e.Job(src)
		job.Source.ZerosAreHoles = holes
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		require.Zero(t, totals.Failures)
		stored[holes] = totals.Bytes.BeforeDedup
		out := filepath.Join(testkit.RamDir(t), "out")
		restored, err := e.Restore(src, restore.Target{Path: out, Verify: true})
		require.NoError(t, err)
		require.Zero(t, restored.Failures)
		for name, content := range files {
			got, err := os.ReadFile(filepath.Join(out, name))
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got), name)
		}
		e.RequireSound()
	}
	require.Less(t, stored[true]+80<<20, stored[false])
}
