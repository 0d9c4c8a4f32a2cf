package repair

import (
	"context"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// SnapshotOptions says which snapshots are repaired.
type SnapshotOptions struct {
	repo.SessionOptions
	Drop bool // remove snapshots without a readable part
}

// Replaced is a snapshot that lost something.
type Replaced struct {
	Old     format.ID `json:"id"`                   // old snapshot
	New     format.ID `json:"replaced_by,omitzero"` // new one
	Dropped bool      `json:"dropped"`              // true if removed without a replacement
	Kept    bool      `json:"kept"`                 // true if unreadable and kept
}

// SnapshotsResult is what a repair of snapshots found and did.
type SnapshotsResult struct {
	DryRun    bool       `json:"dry_run,omitempty"`
	Snapshots uint64     `json:"snapshots"`    // examined
	Replaced  []Replaced `json:"replaced"`     // list of *replaced*
	Lost      uint64     `json:"objects_lost"` // files and folders that lost data
	Losses    Losses     `json:"-"`
}

// Snapshots follows all snapshots and replaces those that have lost something. In the replacement the lost files are
// marked as not readable. An original is removed only after the new snapshot was saved and read back.
func Snapshots(ctx context.Context, r *repo.Repository, opt SnapshotOptions) (*SnapshotsResult, error) {
	res := &SnapshotsResult{DryRun: opt.DryRun}
	err := r.WithSession(ctx, opt.SessionOptions, func(ctx context.Context, s *repo.Session) error {
		listed, err := r.Snapshots(repo.FromTarget(ctx))
		if err != nil {
			return err
		}
		k := rewrite.NewKeeper(r, s, listed)
		m := &mender{k: k, opt: opt, res: res, walker: newWalker(k, &res.Losses)}
		for i := range listed {
			if err := m.one(ctx, &listed[i]); err != nil {
				return fmt.Errorf("snapshot %s: %w", listed[i].ID.Short(), err)
			}
			res.Snapshots++
		}
		return k.Flush(ctx)
	})
	if err != nil {
		return res, fmt.Errorf("repair snapshots: %w", err)
	}
	return res, nil
}

// mender is one repair of snapshots under way.
type mender struct {
	k      *rewrite.Keeper
	opt    SnapshotOptions
	res    *SnapshotsResult
	walker *walker
}

func (m *mender) one(ctx context.Context, l *repo.Listed) error {
	if l.Err != nil {
		m.walker.losses.add(l.ID, "/")
		return m.hopeless(ctx, l)
	}
	m.walker.snapshot = l.ID
	dirty, err := m.walker.Look(ctx, l.Snapshot.Tree, "")
	if err != nil || !dirty {
		return err
	}
	if ok, err := m.k.Has(ctx, pack.Trees, l.Snapshot.Tree); err != nil {
		return err
	} else if !ok {
		return m.hopeless(ctx, l)
	}
	fresh, _, err := m.walker.rewrite(ctx, l.Snapshot.Tree)
	if err != nil {
		return err
	}
	if m.opt.DryRun {
		m.res.Replaced = append(m.res.Replaced, Replaced{Old: l.ID})
		return nil
	}
	sn := *l.Snapshot
	sn.Tree, sn.Original, sn.Held = fresh, l.ID, nil
	id, err := m.k.Publish(ctx, &sn)
	if err != nil {
		return err
	}
	if err := m.k.Prove(ctx, id); err != nil {
		return err
	}
	if err := m.k.Remove(ctx, l.ID); err != nil {
		return err
	}
	m.res.Replaced = append(m.res.Replaced, Replaced{Old: l.ID, New: id})
	return nil
}

// hopeless handles a snapshot without a readable part: it stays unless the user wants it dropped.
func (m *mender) hopeless(ctx context.Context, l *repo.Listed) error {
	one := Replaced{Old: l.ID, Kept: !m.opt.Drop, Dropped: m.opt.Drop}
	if m.opt.Drop && !m.opt.DryRun {
		if err := m.k.Remove(ctx, l.ID); err != nil {
			return err
		}
	}
	m.res.Replaced = append(m.res.Replaced, one)
	return nil
}
