package prune

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// Unbounded is the Settle of a file system whose listings may have any age. A prune refuses to run there.
const Unbounded = time.Duration(-1)

// letMarksSettle waits until the listing of leases shows every writer that missed a mark: that writer may have seen a
// listing as old as Settle, and this prune may see another one as old. The prune measures the time itself, because the
// clock of the target may have been wrong when it dated the mark.
func (p *pruner) letMarksSettle(ctx context.Context, all []marks.Mark) error {
	if p.opt.Settle <= 0 || p.opt.DryRun {
		return nil
	}
	now := time.Now()
	left := time.Duration(0)
	for i := range all {
		if _, ok := p.met[all[i].ID]; !ok {
			p.met[all[i].ID] = now
		}
		left = max(left, 2*p.opt.Settle-now.Sub(p.met[all[i].ID]))
	}
	return p.wait(ctx, left)
}

// wait waits until listings of the target are current. The session renews its lease in the background.
func (p *pruner) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 || p.opt.DryRun {
		return nil
	}
	p.opt.Note(fmt.Sprintf("waiting for %s, as this share may show other machines' files late", human.Span(d)))
	return store.Sleep(ctx, d)
}
