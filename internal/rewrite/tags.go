package rewrite

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
)

// TagChange says how tags change.
type TagChange struct {
	Replace     bool     // by Set, which may be empty
	Set         []string // with Replace
	Add, Remove []string
}

// apply returns the tags after the change, each once.
func (c *TagChange) apply(tags []string) []string {
	if c.Replace {
		tags = c.Set
	}
	var after []string
	for _, tag := range slices.Concat(tags, c.Add) {
		if !slices.Contains(after, tag) && !slices.Contains(c.Remove, tag) {
			after = append(after, tag)
		}
	}
	return after
}

// Tags replaces the snapshots whose tags change. It returns those; others stay as they are.
func Tags(ctx context.Context, r *repo.Repository, chosen []repo.Listed, change TagChange, opt Options) (all []Changed,
	err error) {
	if !change.Replace && len(change.Add)+len(change.Remove) == 0 {
		return nil, ErrNoChange
	}
	opt.Forget = true
	var plan []Changed
	for _, l := range chosen {
		after := change.apply(l.Snapshot.Tags)
		if slices.Equal(after, l.Snapshot.Tags) {
			continue
		}
		sn := *l.Snapshot
		sn.Tags = after
		plan = append(plan, Changed{Old: l, Snapshot: &sn})
	}
	if len(plan) == 0 {
		return nil, nil
	}
	err = within(ctx, r, opt, func(ctx context.Context, w *writer) error {
		for i := range plan {
			if err := w.require(ctx, &plan[i].Old); err != nil {
				return err
			}
			if err := w.publish(ctx, &plan[i]); err != nil {
				return err
			}
			w.keepDirectories(&plan[i])
		}
		return w.forget(ctx, plan)
	})
	if err != nil {
		return nil, fmt.Errorf("change tags: %w", err)
	}
	return plan, nil
}

// keepDirectories lets the next backup of this machine use its directory cache: the tree is the same. Without it that
// backup reads every directory.
func (w *writer) keepDirectories(c *Changed) {
	if w.opt.DryRun {
		return
	}
	if cache, err := w.r.DirCache(); err == nil && cache != nil {
		_ = cache.Renamed(c.Old.ID, c.New)
	}
}
