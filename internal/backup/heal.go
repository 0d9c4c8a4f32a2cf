package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// A backup heals the repository as far as the source allows. A mark names the packs that are missing, cut off or known
// to be damaged; the session stores the blobs in them again. An unchanged file reuses its old node only if all its
// blobs are in other packs. That check is skipped if the parent's own backup acknowledged the same marks.
//
//	listing of packs ──► lost ──┐
//	marks of check and restore ─┴─► doomed ──► parent made without the mark? look up each unchanged file
//	found while the backup runs ──► mark, and another pass

// passes bounds the passes of one backup. Each but the first has found another damaged pack.
const passes = 32

// damage is the damage that earlier passes of a backup found.
type damage struct {
	evidence error       // why a tree could not be read; nil: none was unreadable
	packs    []format.ID // missing or unreadable packs
}

// foundDamage ends a pass whose snapshot could rely on damaged packs.
type foundDamage struct{ packs []format.ID }

func (e *foundDamage) Error() string {
	return fmt.Sprintf("missing or damaged: %s; the backup begins again without what is lost",
		human.Plural(uint64(len(e.packs)), "pack"))
}

// add takes the damage from the error of a pass, and reports whether it was new, so that another pass may succeed.
func (d *damage) add(err error) bool {
	var found *foundDamage
	var lost *repo.PackError
	switch {
	case errors.As(err, &found):
		d.packs = append(d.packs, found.packs...)
	case errors.Is(err, compare.ErrOldTree) && errors.As(err, &lost):
		d.packs = append(d.packs, lost.Pack)
	case !errors.Is(err, compare.ErrOldTree) || d.evidence != nil:
		return false
	}
	d.evidence = err
	return true
}

// headStart is how long a backup waits for the listing of the packs before it begins. A slower listing continues beside
// the backup, and if it finds lost packs, another pass is necessary.
const headStart = 250 * time.Millisecond

// lostPacks are the packs that the target does not hold in full.
type lostPacks = begun[[]format.ID]

// exclude makes the session ignore damaged packs from the beginning: those that earlier passes found, and those that
// the listing finds within its head start.
func (d *damage) exclude(ctx context.Context, s *repo.Session, listing *lostPacks) error {
	timer := time.NewTimer(headStart)
	defer timer.Stop()
	var lost []format.ID
	select {
	case <-timer.C:
	case <-listing.done:
		var err error
		if lost, err = listing.result(); err != nil {
			return err
		}
	}
	return s.MarkDamaged(ctx, slices.Concat(lost, d.packs))
}

// reliedOn returns an error if the session relied on packs that are lost or damaged.
func reliedOn(listing *lostPacks, s *repo.Session) error {
	lost, err := listing.result()
	if err != nil {
		return err
	}
	if packs := s.ReliedOnLost(lost); len(packs) > 0 {
		return &foundDamage{packs}
	}
	return nil
}

// withoutSuspects drops the snapshots that were made without acknowledging a damage mark: their directories in the
// cache may need lost blobs.
func withoutSuspects(s *repo.Session, listed []repo.Listed) []repo.Listed {
	return slices.DeleteFunc(slices.Clone(listed),
		func(l repo.Listed) bool { return l.Snapshot == nil || s.Suspect(l.Snapshot) })
}
