package prune

import (
	"context"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
)

// missing returns an ErrMissing if a snapshot that this machine published or saw has disappeared without being
// forgotten, and a prune could remove its data. It could not if a snapshot that is there has the same tree, or if the
// tree is gone: the target was set back to an older state, or another machine forgot the snapshot over a year ago.
func (p *pruner) missing(ctx context.Context, v *survey) error {
	p.r.ReportMissing(ctx, v.listed)
	lost, err := p.r.Missing(ctx, v.listed, func(l *repo.Listed) (bool, error) {
		if l.Snapshot == nil {
			return true, nil
		}
		at, err := v.index.LocateOne(l.Snapshot.Tree)
		return err == nil && !at.Lost() && !v.used.Has(at.Number()), err
	})
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%w: %s", ErrMissing, repo.NameMissing(lost))
	}
	return err
}
