package kit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// WithCopies makes copies of the same files in several folders, more of them than fit into the first windows, and large
// files that no frame holds a part of all.
func WithCopies(t *testing.T, src string) (files map[string]string) {
	t.Helper()
	files = map[string]string{}
	for i := range 1500 {
		data := string(testkit.Noise(uint64(i), 1000+i%300))
		for copies := range 4 {
			files[fmt.Sprintf("d%d/f%04d", copies, i)] = data
		}
	}
	for i := range 6 {
		files[fmt.Sprintf("large%d", i)] = string(testkit.Noise(uint64(10_000+i), 1<<20))
	}
	Written(t, src, files)
	return files
}

// Alone restores dir with one worker, so that counts do not depend on the order of workers.
func (e *Engine) Alone(dir string, to restore.Target) (report.Totals, error) {
	e.T.Helper()
	e.Ledger = report.NewJob(report.Restore, time.Now)
	err := e.With(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
		if err != nil {
			return err
		}
		_, err = restore.Run(context.Background(), r, restore.Selection{Tree: found.Snapshot.Tree, Sub: dir}, to,
			1, e.Ledger)
		return err
	})
	return e.Ledger.Snapshot(), err
}
