// Package rewrite puts changed snapshots in the place of others: with other tags (Tags), or without paths that match
// patterns (Exclude); package repair uses it for snapshots without what is lost. It brings forgotten ones back (Undo).
// A snapshot is immutable, so a new one is published; time, host, paths and description stay; it names the original.
// An original is removed last, after every new snapshot was read back.
//
//	Keeper    which blobs a new snapshot may rely on; what must be stored again
//	          publish ──► prove ──► tombstone ──► remove
//	Walker    which objects of a tree have lost data
//
// A run that is killed leaves the old snapshot, the new one, or both. The next run finds the new one and goes on.
package rewrite

import (
	"context"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Options says how snapshots are rewritten.
type Options struct {
	repo.SessionOptions
	Forget bool // remove the originals; Tags always does
}

// Changed is a snapshot with its replacement.
type Changed struct {
	Old      repo.Listed
	New      format.ID          // zero in a dry run
	Snapshot *snapshot.Snapshot // the new one
	Left     snapshot.Content   // what it leaves out; zero for tags
}

// writer is one run over several snapshots.
type writer struct {
	*Keeper
	opt      Options
	whole    *Walker
	lost     []string // by the snapshot that whole examines
	reliable func(format.ID, *snapshot.Snapshot) bool
}

// within opens a session and calls do with a writer.
func within(ctx context.Context, r *repo.Repository, opt Options, do func(context.Context, *writer) error) error {
	return r.WithSession(ctx, opt.SessionOptions, func(ctx context.Context, s *repo.Session) error {
		listed, err := r.Snapshots(ctx)
		if err != nil {
			return err
		}
		w := &writer{Keeper: NewKeeper(r, s, listed), opt: opt}
		if w.reliable, err = s.FilterParents(ctx); err != nil {
			return err
		}
		w.whole = NewWalker(w.Keeper, func(path string) { w.lost = append(w.lost, path) })
		return do(ctx, w)
	})
}

// require makes sure that a new snapshot may refer to everything in l. Data that lies only in packs that are about to
// be removed is stored again.
func (w *writer) require(ctx context.Context, l *repo.Listed) error {
	if w.reliable(l.ID, l.Snapshot) && !w.s.Suspect(l.Snapshot) {
		return nil
	}
	w.lost = nil
	dirty, err := w.whole.Look(ctx, l.Snapshot.Tree, "")
	if err == nil && dirty {
		return fmt.Errorf("snapshot %s: %w, such as %q", l.ID.Short(), ErrDamaged, w.lost[0])
	}
	return err
}

// publish saves the new snapshot and proves it.
func (w *writer) publish(ctx context.Context, c *Changed) (err error) {
	c.Snapshot.Original = original(&c.Old)
	if w.opt.DryRun {
		return nil
	}
	if c.New, err = w.Publish(ctx, c.Snapshot); err != nil {
		return fmt.Errorf("replace snapshot %s: %w", c.Old.ID.Short(), err)
	}
	return nil
}

// original returns the snapshot that a replacement of l names: the first one, so that a copy of it is recognised.
func original(l *repo.Listed) format.ID {
	if !l.Snapshot.Original.IsZero() {
		return l.Snapshot.Original
	}
	return l.ID
}

// prove reads a new snapshot back. A tree that it shares with the original is not read, since the removal of the
// original loses nothing of it.
func (w *writer) prove(ctx context.Context, c *Changed) error {
	if c.Snapshot.Tree == c.Old.Snapshot.Tree {
		_, err := w.ReadBack(ctx, c.New)
		return err
	}
	return w.Prove(ctx, c.New)
}

// forget removes the originals, once each new snapshot was read back.
func (w *writer) forget(ctx context.Context, all []Changed) error {
	if w.opt.DryRun || !w.opt.Forget {
		return nil
	}
	var old []format.ID
	for i := range all {
		if err := w.prove(ctx, &all[i]); err != nil {
			return fmt.Errorf("snapshot %s in the place of %s: %w", all[i].New.Short(), all[i].Old.ID.Short(), err)
		}
		old = append(old, all[i].Old.ID)
	}
	return w.Remove(ctx, old...)
}
