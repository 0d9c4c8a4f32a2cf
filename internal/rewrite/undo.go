package rewrite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Forgotten returns, oldest first, the forgotten snapshots whose content is in a tombstone, and the missing ones that
// have a copy on this machine. Those that were brought back are left out, also if they were forgotten again under the
// new ID. Whether all of their data is still there is not known before Undo.
func Forgotten(ctx context.Context, r *repo.Repository) ([]repo.Listed, error) {
	listed, err := r.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool)
	for i := range listed {
		if l := &listed[i]; l.Snapshot != nil {
			there[string(content(l.Snapshot))] = true
		}
	}
	forgotten, err := r.Forgotten(ctx)
	if err != nil {
		return nil, err
	}
	missing, err := r.Missing(ctx, listed, func(l *repo.Listed) (bool, error) { return l.Snapshot != nil, nil })
	if err != nil {
		return nil, err
	}
	forgotten = append(forgotten, missing...)
	slices.SortFunc(forgotten, repo.ByTime(time.Now()))
	last := make(map[string]*repo.Listed) // by what Undo publishes: the one that was brought back before
	for i := range forgotten {
		l := &forgotten[i]
		back := string(content(undone(l).Snapshot))
		if before := last[back]; before == nil || before.Snapshot.Original.IsZero() {
			last[back] = l
		}
	}
	var left []repo.Listed
	for i := range forgotten {
		l := &forgotten[i]
		back := content(undone(l).Snapshot)
		if last[string(back)] == l && !there[string(back)] && !there[string(content(l.Snapshot))] {
			left = append(left, *l)
		}
	}
	return left, nil
}

// undone returns the change that brings a forgotten snapshot back.
func undone(l *repo.Listed) *Changed {
	sn := *l.Snapshot
	sn.Original = original(l)
	return &Changed{Old: *l, Snapshot: &sn}
}

// Undo publishes forgotten snapshots again, under new IDs. refs are beginnings of their IDs. It does so as a writer
// does: it obeys the marks of a prune, and stores again what lies only in packs that are about to be removed. If
// anything of one of them is gone, it publishes none and returns an ErrPruned.
func Undo(ctx context.Context, r *repo.Repository, refs []string, opt Options) (all []Changed, err error) {
	err = within(ctx, r, opt, func(ctx context.Context, w *writer) error {
		forgotten, err := Forgotten(ctx, r)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			l, err := findForgotten(forgotten, ref)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(c Changed) bool { return c.Old.ID == l.ID }) {
				all = append(all, *undone(l))
			}
		}
		for i := range all {
			w.lost = nil
			dirty, err := w.whole.Look(ctx, all[i].Snapshot.Tree, "")
			if err == nil && dirty {
				err = fmt.Errorf("snapshot %s: %w, such as %s", all[i].Old.ID.Short(), ErrPruned, nameLost(w.lost[0]))
			}
			if err != nil {
				return err
			}
		}
		var back []format.ID
		for i := range all {
			if err := w.publish(ctx, &all[i]); err != nil {
				return err
			}
			w.keepDirectories(&all[i])
			back = append(back, all[i].Old.ID)
		}
		if !opt.DryRun {
			r.Forgot(back) // a missing one is no longer missing
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("undo forget: %w", err)
	}
	return all, nil
}

// nameLost names a lost object for a message.
func nameLost(path string) string {
	if path == "/" {
		return "its top directory, the list of all that it has"
	}
	return strconv.Quote(path)
}

func findForgotten(forgotten []repo.Listed, ref string) (*repo.Listed, error) {
	var found *repo.Listed
	for i := range forgotten {
		if !strings.HasPrefix(forgotten[i].ID.String(), strings.ToLower(ref)) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%q: %w", ref, ErrSeveral)
		}
		found = &forgotten[i]
	}
	if found == nil {
		return nil, fmt.Errorf("%q: %w", ref, ErrNotForgotten)
	}
	return found, nil
}
