package kit

import (
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
)

// JobOf is a backup of several sources as a user writes them.
func (e *Engine) JobOf(paths ...string) backup.Job {
	e.T.Helper()
	job := e.Job("/")
	pick, err := scan.Sources(paths)
	require.NoError(e.T, err)
	job.Source.Root, job.Label.Sources = pick, nil
	for _, path := range paths {
		absolute, err := filepath.Abs(path)
		require.NoError(e.T, err)
		job.Label.Sources = append(job.Label.Sources, absolute)
	}
	return job
}
