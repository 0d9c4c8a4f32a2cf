package cli

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestChunkSizesAreRefusedInPlainWords(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []string{"", "0", "-1", "abc", "1", "8K", "65K", "100000", "3M", "8M", "1G"} {
		_, said, code := ran(t.Context(), t, t.TempDir(), "init", "--repo", filepath.Join(dir, "repo"), "--chunk-size="+size)
		require.Equal(t, exitUsage, code, size)
		require.Contains(t, said, "--chunk-size")
		require.Contains(t, said, "write a power of two from 16K to 4M, such as 256K or 1M")
	}
	_, said, code := ran(t.Context(), t, t.TempDir(), "init", "--repo", filepath.Join(dir, "repo"), "--from-repo", dir,
		"--same-key", "--chunk-size", "1M")
	require.Equal(t, exitUsage, code)
	require.Contains(t, said, "leave one of the two out")
	require.NoDirExists(t, filepath.Join(dir, "repo"))
}

// The sizes are in the repository, so another machine, which has no cache of it, cuts files in the same way.
func TestChunkSizeOfInitHoldsForLaterBackups(t *testing.T) {
	dir := testkit.RamDir(t)
	place := []string{"--repo", filepath.Join(dir, "repo"), "--key-file", filepath.Join(dir, "key")}
	as := func(machine string, args ...string) string {
		t.Helper()
		home := filepath.Join(dir, machine)
		require.NoError(t, os.MkdirAll(home, 0o700))
		out, said, code := ran(t.Context(), t, home, append(args, place...)...)
		require.Equal(t, exitOK, code, said)
		return out
	}
	content := make([]byte, 16<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	as("one", "init", "--chunk-size", "1M")
	as("one", "backup", "--policy", "important", file)
	count := func() (s event.Statistics) {
		require.NoError(t, json.Unmarshal([]byte(as("one", "stats", "--mode", "repository", "--json")), &s))
		require.Equal(t, uint32(1<<20), s.ChunkSize)
		return s
	}
	first := count()
	require.InDelta(t, 19, first.BlobCount, 9, "chunks, whose sizes vary with the key, and a few trees")
	require.NoError(t, os.WriteFile(file, slices.Concat(content, []byte{1}), 0o600))
	as("two", "backup", "--policy", "important", file)
	require.LessOrEqual(t, count().BlobCount, first.BlobCount+6, "the last chunk, and trees")
	require.Contains(t, as("two", "stats", "--mode", "repository"), "1.00 MiB on average")
}
