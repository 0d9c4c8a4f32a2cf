package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// samples returns what `tidemark options` has to print for each file of testdata/options.
func samples() map[string][]string {
	return map[string][]string{
		"laptop.opt": {`resource-utilization\s+4\s`, `/home/\*/\.cache`},
		"dsm.opt":    {`changing-retries\s+3\s`, `compression\s+auto\s`},
		"dsm.sys":    {`resource-utilization\s+5\s`, `dedup-cache-size\s+512`},
	}
}

// TestSampleOptionFilesAreUnderstood reads the option files as people have them, with the program.
func TestSampleOptionFilesAreUnderstood(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "options")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(samples()), "each file of testdata/options has a line in samples")
	for name, lines := range samples() {
		t.Run(name, func(t *testing.T) {
			out, failed, code := ran(t.Context(), t, t.TempDir(), "options", "--option-file", filepath.Join(dir, name))
			require.Zero(t, code, failed)
			for _, line := range lines {
				require.Regexp(t, line, out)
			}
		})
	}
}
