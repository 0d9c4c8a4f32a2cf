package check

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/repo"
)

// checkMissing finds the missing snapshots whose data is there, at least the folder at the root. They stop a prune
// unless another snapshot has the same tree. Of others this machine only warns, once: the target was set back to an
// older state.
func (c *checker) checkMissing(ctx context.Context) error {
	c.r.ReportMissing(ctx, c.listed)
	missing, err := c.r.Missing(ctx, c.listed, func(l *repo.Listed) (bool, error) {
		if l.Snapshot == nil {
			return true, nil
		}
		at, err := c.index.LocateOne(l.Snapshot.Tree)
		return err == nil && !at.Lost(), err
	})
	if err != nil && fatal(ctx, err) {
		return err
	}
	if err != nil { // such as a full disk of the cache, which holds the record of this machine
		c.found.Note("it is not known whether snapshots are missing: %v", err)
		return nil
	}
	c.found.Expect(uint64(len(missing)), 0)
	for _, l := range missing {
		c.found.Add(Snapshot, l.ID, "snapshot "+l.ID.String(), errDeleted)
	}
	return nil
}
