package arch

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli"
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
	dir := filepath.Join(root, "testdata", "options")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(samples()), "each file of testdata/options has a line in samples")
	for name, lines := range samples() {
		t.Run(name, func(t *testing.T) {
			var out, report bytes.Buffer
			env := map[string]string{"HOME": t.TempDir()}
			code := cli.Run(context.Background(), cli.Process{
				Args: []string{"options", "--option-file", filepath.Join(dir, name)}, In: &bytes.Buffer{}, Out: &out, Err: &report,
				Env: func(key string) (string, bool) { value, ok := env[key]; return value, ok },
			})
			require.Zero(t, code, "%s", &report)
			for _, line := range lines {
				require.Regexp(t, line, out.String())
			}
		})
	}
}
