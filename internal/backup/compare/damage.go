package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ErrOldTree: a tree of the snapshot compared with cannot be read.
var ErrOldTree = errors.New("a tree of an earlier snapshot is damaged")

// errUnheld ends the check of a list of chunks.
var errUnheld = errors.New("a part of it lies in no pack that can be relied on")

// chunksPerLookup is how many chunks of a file are looked up together.
const chunksPerLookup = 4 << 10

// Damaged reports whether an error is about a part of the repository that is lost or wrong.
func Damaged(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, store.ErrNotExist) || errors.Is(err, store.ErrShort)
}

// damagedTree handles a tree that cannot be read. With Parent.Damaged set it is recorded and the run goes on; otherwise
// the run ends.
func (c *Comparer) damagedTree(d *Dir, err error) error {
	if !c.Parent.Damaged {
		return fmt.Errorf("compare %s: %w: %w", d.Scanned.Path(), ErrOldTree, err)
	}
	c.Ledger.Note(d.Scanned.Path(), "compare", err)
	c.excludePack(err)
	return nil
}

// excludePack keeps the session from relying on the pack that could not be read.
func (c *Comparer) excludePack(err error) {
	var lost *repo.PackError
	if errors.As(err, &lost) {
		c.Session.StopUsing(lost.Pack)
	}
}

// stored reports whether the repository can be relied on for all content of a node.
func (c *Comparer) stored(ctx context.Context, n *tree.Node) (bool, error) {
	if n.Type != tree.File {
		return true, nil
	}
	var batch []format.ID
	check := func() error {
		ok, err := c.Session.Holds(ctx, batch)
		if batch = batch[:0]; err == nil && !ok {
			err = errUnheld
		}
		return err
	}
	load := func(ctx context.Context, id format.ID) ([]byte, error) {
		if ok, err := c.Session.Holds(ctx, []format.ID{id}); err != nil || !ok {
			return nil, errors.Join(err, errUnheld)
		}
		return c.Load(ctx, id)
	}
	err := n.Content.Each(ctx, load, func(chunk tree.Chunk, _ uint64) error {
		if chunk.IsHole() {
			return nil
		}
		if batch = append(batch, chunk.ID); len(batch) < chunksPerLookup {
			return nil
		}
		return check()
	})
	if err == nil {
		err = check()
	}
	if err != nil && (errors.Is(err, errUnheld) || Damaged(err)) && context.Cause(ctx) == nil {
		c.excludePack(err)
		return false, nil
	}
	return err == nil, err
}
