package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/todo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// chunkBatch is how many chunks of files are looked up together.
const chunkBatch = 16 << 10

// follow marks what the snapshots need. Whatever cannot be found or read ends it.
func (p *places) follow(ctx context.Context, listed []repo.Listed, parallel int) error {
	work := todo.New[folder]()
	root := &visitor{p: p, work: work}
	for i := range slices.Backward(listed) {
		if listed[i].Err != nil {
			return fmt.Errorf("snapshot %s: %w: %w", listed[i].ID.Short(), ErrDamaged, listed[i].Err)
		}
		if err := root.folders([]format.ID{listed[i].Snapshot.Tree}); err != nil {
			return fmt.Errorf("snapshot %s: %w", listed[i].ID.Short(), err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for range parallel {
		g.Go(func() error {
			v := &visitor{p: p, work: work}
			clock := p.ledger.Worker("follower")
			defer clock.Stop()
			ctx := clock.Within(ctx)
			err := work.Each(ctx, func(f folder) error {
				defer clock.Enter(clock.Enter(report.Unpack))
				return v.folder(ctx, &f)
			})
			if err != nil {
				return err
			}
			defer clock.Enter(clock.Enter(report.Unpack))
			return v.lookUp()
		})
	}
	return g.Wait()
}

// folder is one that is still to be visited: where its first page lies was looked up when it was met.
type folder struct {
	id format.ID
	at place
}

// visitor is one goroutine that visits folders.
type visitor struct {
	p      *places
	work   *todo.Stack[folder]
	root   folder      // what is visited: a folder, or a list of chunks
	dirs   []format.ID // beneath it
	lists  []format.ID // of its large files
	chunks []format.ID // to be looked up
	found  []hashcache.Found
	at     []place
	fresh  []folder
}

// need marks the places of blobs. v.at has them afterwards.
func (v *visitor) need(ids []format.ID) error {
	v.found = slices.Grow(v.found[:0], len(ids))[:len(ids)]
	v.at = slices.Grow(v.at[:0], len(ids))[:len(ids)]
	missing, err := v.p.locate(ids, v.found, v.at)
	if err != nil {
		return err
	}
	if missing != nil {
		return fmt.Errorf("blob %s is in no pack: %w", *missing, ErrDamaged)
	}
	for i := range v.at {
		v.p.used.Add(v.at[i].number())
	}
	return nil
}

// folders takes up those folders that were not met before.
func (v *visitor) folders(ids []format.ID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := v.need(ids); err != nil {
		return err
	}
	v.fresh = v.fresh[:0]
	for i, id := range ids {
		if v.p.walked.Add(v.at[i].number()) {
			v.fresh = append(v.fresh, folder{id, v.at[i]})
		}
	}
	v.work.Push(v.fresh...)
	return nil
}

// load reads a page.
func (v *visitor) load(ctx context.Context, id format.ID) ([]byte, error) {
	at := v.root.at
	if id != v.root.id {
		if err := v.need([]format.ID{id}); err != nil {
			return nil, err
		}
		at = v.at[0]
	}
	p, err := v.p.load(ctx, id, &at)
	if err != nil && (object.IsDamage(err) || errors.Is(err, store.ErrNotExist)) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	v.p.step.Did(1, uint64(len(p)))
	return p, err
}

func (v *visitor) folder(ctx context.Context, f *folder) error {
	v.root, v.dirs, v.lists = *f, v.dirs[:0], v.lists[:0]
	err := tree.Walk(ctx, v.load, f.id, func(n *tree.Node) error {
		switch {
		case n.Type == tree.Dir:
			v.dirs = append(v.dirs, n.Subtree)
		case n.Type == tree.File && !n.Content.List.IsZero():
			v.lists = append(v.lists, n.Content.List)
		case n.Type == tree.File:
			for _, c := range n.Content.Chunks {
				if err := v.chunk(c); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return damage(err)
	}
	if err := v.folders(v.dirs); err != nil {
		return err
	}
	for _, list := range v.lists {
		if err := v.list(ctx, list); err != nil {
			return damage(err)
		}
	}
	return nil
}

func (v *visitor) list(ctx context.Context, id format.ID) error {
	if err := v.need([]format.ID{id}); err != nil {
		return err
	}
	if !v.p.walked.Add(v.at[0].number()) {
		return nil
	}
	v.root = folder{id, v.at[0]}
	return tree.WalkList(ctx, v.load, id, v.chunk)
}

// damage says of a tree that does not mean what it should that the repository is damaged.
func damage(err error) error {
	if !errors.Is(err, ErrDamaged) && (errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func (v *visitor) chunk(c tree.Chunk) error {
	if c.IsHole() {
		return nil
	}
	if v.chunks = append(v.chunks, c.ID); len(v.chunks) < chunkBatch {
		return nil
	}
	return v.lookUp()
}

// lookUp marks the chunks that were gathered.
func (v *visitor) lookUp() error {
	slices.SortFunc(v.chunks, format.ID.Compare)
	v.chunks = slices.Compact(v.chunks)
	if len(v.chunks) == 0 {
		return nil
	}
	err := v.need(v.chunks)
	v.chunks = v.chunks[:0]
	return err
}
