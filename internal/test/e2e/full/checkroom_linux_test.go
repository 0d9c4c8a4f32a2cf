package full

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestCheckWithoutSpaceInTheCacheFolder: the temporary index does not fit there. The check reports that and uses the
// folder for temporary files. Without space there too, its error names a remedy.
func TestCheckWithoutSpaceInTheCacheFolder(t *testing.T) {
	src, small := testkit.RamDir(t), testkit.TempDir(t)
	testkit.MountMemory(t, small, "64k")
	files := map[string]string{}
	for i := range 3000 {
		files[fmt.Sprintf("d%d/f%d", i%10, i)] = string(testkit.Noise(uint64(i), 300))
	}
	kit.Written(t, src, files)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	run := func() (found *check.Result, err error) {
		err = e.With(func(r *repo.Repository) error {
			found, err = check.Run(context.Background(), r,
				check.Options{ReadData: true, Scratch: filepath.Join(small, "cache")},
				report.NewJob(report.Check, time.Now))
			return err
		})
		return found, err
	}
	found, err := run()
	require.NoError(t, err)
	require.True(t, found.OK())
	require.Contains(t, strings.Join(found.Notes, "\n"), "no space for the temporary index")
	t.Setenv("TMPDIR", small)
	_, err = run()
	require.ErrorContains(t, err, "let --cache-dir or TMPDIR name a folder with more space")
}
