package check

import (
	"context"
	"errors"
	"fmt"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// follow verifies that every blob that the snapshots need is in a pack that exists.
func (c *checker) follow(ctx context.Context) error {
	roots := make([]format.ID, len(c.snapshots))
	for i := range c.snapshots {
		roots[i] = c.snapshots[i].Snapshot.Tree
	}
	closure := reach.Walk{
		Index: c.index, Workers: c.opt.Parallel, Role: "checker", Ledger: c.l,
		Visitor: func() reach.Visitor { return &visitor{c, c.keys.Hasher()} },
	}
	err := closure.Run(ctx, roots)
	if err == nil && c.strays > 0 {
		c.reportStrays()
	}
	return err
}

// reportStrays reports that snapshots need packs that no segment names: a note beside a damaged segment, which explains
// it, otherwise a problem.
func (c *checker) reportStrays() {
	const text = "no segment that can be read names %s that snapshots need; packs outside the index have them, such as " +
		"%s"
	blobs := human.Plural(uint64(c.strays), "blob")
	if c.found.Has(Index) {
		c.found.Note(text, blobs, c.stray)
		return
	}
	c.found.Add(Index, format.ID{}, "index", fmt.Errorf(text, blobs, c.stray))
}

func (c *checker) countStray(pack format.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.strays == 0 || pack.Compare(c.stray) < 0 {
		c.stray = pack
	}
	c.strays++
}

// met records that a snapshot needs a blob at a place in a pack.
func (c *checker) met(at *blobindex.Place, in format.ID) {
	switch at.Rank() {
	case stray, doomed:
		c.countStray(in)
		c.found.Rely(in)
	case marked, gone:
		c.found.Rely(in)
	}
}

// visitor records what one worker of the walk finds missing or damaged.
type visitor struct {
	*checker
	hasher *seal.Hasher
}

func (v *visitor) Queued(dirs int) { v.found.Expect(uint64(dirs), 0) }

func (v *visitor) Intact() { v.found.Whole() }

// Load reads a page and records its loss. An error other than errLost ends the check.
func (v *visitor) Load(ctx context.Context, id format.ID, at *blobindex.Place) ([]byte, error) {
	if at.Lost() {
		v.found.LoseBlob(Tree, id, errNowhere)
		return nil, errLost
	}
	in, err := v.index.Found(at)
	if err != nil {
		return nil, err
	}
	v.met(at, in.Pack.ID)
	if v.found.Why(id, in) != nil {
		return v.besides(ctx, v.hasher, id, at)
	}
	p, err := v.load(ctx, v.hasher, id, in)
	var frame *frameError
	switch {
	case err == nil:
		return p, nil
	case fatal(ctx, err):
		return nil, err
	case errors.As(err, &frame):
		v.found.LoseFrame(in.Pack.ID, at.Offset, err)
	default:
		v.found.LoseBlobOf(in.Pack.ID, id, err)
	}
	return v.besides(ctx, v.hasher, id, at)
}

// Damaged records a directory or chunk list with wrong content. Load has recorded the loss of a page.
func (v *visitor) Damaged(ctx context.Context, id format.ID, err error) error {
	switch {
	case fatal(ctx, err) || !errors.Is(err, errLost) && !wrong(err):
		return err
	case wrong(err):
		v.found.LoseBlob(Tree, id, err)
	}
	return nil
}

// wrong reports whether the error means that a blob has wrong content.
func wrong(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)
}

// Chunks records chunks that are in no pack, or whose length differs from the one in the file.
func (v *visitor) Chunks(chunks []tree.Chunk, places []blobindex.Place) error {
	for i := range places {
		switch at := &places[i]; {
		case at.Lost():
			v.found.LoseBlob(Blob, chunks[i].ID, errNowhere)
		case uint64(at.Len) != chunks[i].Len:
			v.found.LoseBlob(Blob, chunks[i].ID, fmt.Errorf("the index says %d bytes, a file %d: %w", at.Len,
				chunks[i].Len, format.ErrCorrupt))
		case at.Rank() > named:
			in, err := v.index.Found(at)
			if err != nil {
				return err
			}
			v.met(at, in.Pack.ID)
		}
	}
	return nil
}
