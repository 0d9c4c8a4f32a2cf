package check

import (
	"context"
	"errors"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// attribute records the paths and snapshots that need lost data. This second walk runs only after damage was found.
// It visits each intact directory once.
func (c *checker) attribute(ctx context.Context) error {
	if !c.found.AnyLost() {
		return nil
	}
	a := &attribution{checker: c, hasher: c.keys.Hasher(), intact: reach.NewBitset(c.index.Blobs())}
	for _, s := range c.snapshots {
		a.snapshot = s.ID.Short()
		if _, err := a.dir(ctx, s.Snapshot.Tree, ""); err != nil {
			return err
		}
	}
	return nil
}

type attribution struct {
	*checker
	hasher   *seal.Hasher
	places   []blobindex.Place // of the chunks of one file
	intact   reach.Bitset      // directories, by their number
	snapshot string
	ids      []format.ID // chunks of one file
}

// dir walks a directory with that path, "" for the root, and reports whether something in it is lost.
func (a *attribution) dir(ctx context.Context, id format.ID, path string) (lost bool, err error) {
	root, err := a.index.LocateOne(id)
	if err != nil {
		return false, err
	}
	if !root.Lost() && a.intact.Has(root.Number()) {
		return false, nil
	}
	shown := path
	if shown == "" {
		shown = "/"
	}
	err = reach.EachPage(ctx, a.loader(shown, &lost), id, func(page format.ID, pg *tree.Page, err error) error {
		if err != nil {
			return a.unreadable(ctx, page, shown, err, &lost)
		}
		if p := a.found.Why(page, blobindex.Found{}); p != nil && p.Kind != Pack { // it can be read, but its content is wrong
			a.need(p, shown, &lost)
		}
		for i := range pg.Nodes {
			n := &pg.Nodes[i]
			below, err := a.node(ctx, n, path+"/"+n.Name)
			if err != nil {
				return err
			}
			lost = lost || below
		}
		return nil
	})
	if err == nil && !lost { // so a pack holds it
		a.intact.Add(root.Number())
	}
	return lost, err
}

func (a *attribution) need(p *Problem, path string, lost *bool) {
	*lost = true
	a.found.Need(p, a.snapshot, path)
}

// unreadable skips a page that cannot be loaded or decoded.
func (a *attribution) unreadable(ctx context.Context, page format.ID, path string, err error, lost *bool) error {
	if !errors.Is(err, errLost) && !wrong(err) || fatal(ctx, err) {
		return err
	}
	if p := a.found.Why(page, blobindex.Found{}); p != nil {
		a.need(p, path, lost)
	}
	*lost = true
	return nil
}

// loader returns a Load that records the path for each page that is lost.
func (a *attribution) loader(path string, lost *bool) tree.Load {
	return func(ctx context.Context, id format.ID) ([]byte, error) {
		at, err := a.index.LocateOne(id)
		if err != nil {
			return nil, err
		}
		found, err := a.index.Found(&at)
		if err != nil {
			return nil, err
		}
		if p := a.found.Why(id, found); p != nil && (at.Lost() || p.Kind == Pack) {
			blob, err := a.besides(ctx, id, &at)
			if errors.Is(err, errLost) {
				a.need(p, path, lost)
			}
			return blob, err
		}
		if at.Lost() {
			return nil, errLost // one of more than MaxProblems
		}
		p, err := a.load(ctx, a.hasher, id, found)
		if err != nil && !fatal(ctx, err) {
			return nil, errLost
		}
		return p, err
	}
}

func (a *attribution) node(ctx context.Context, n *tree.Node, path string) (lost bool, err error) {
	switch {
	case n.Type == tree.Dir:
		return a.dir(ctx, n.Subtree, path)
	case n.Type != tree.File:
		return false, nil
	case n.Content.List.IsZero():
		err = a.chunks(ctx, n.Content.Chunks, path, &lost)
		return lost, err
	}
	err = reach.EachListPage(ctx, a.loader(path, &lost), n.Content.List,
		func(id format.ID, pg *tree.ListPage, err error) error {
			if err != nil {
				return a.unreadable(ctx, id, path, err, &lost)
			}
			if p := a.found.Why(id, blobindex.Found{}); p != nil && p.Kind != Pack {
				a.need(p, path, &lost)
			}
			return a.chunks(ctx, pg.Chunks, path, &lost)
		})
	return lost, err
}

func (a *attribution) chunks(ctx context.Context, chunks []tree.Chunk, path string, lost *bool) error {
	a.ids = a.ids[:0]
	for _, c := range chunks {
		if !c.IsHole() {
			a.ids = append(a.ids, c.ID)
		}
	}
	var err error
	if a.places, err = a.index.Locate(a.places, a.ids); err != nil {
		return err
	}
	for i := range a.places {
		found, err := a.index.Found(&a.places[i])
		if err != nil {
			return err
		}
		p := a.found.Why(a.ids[i], found)
		if p == nil {
			continue
		}
		if _, err := a.besides(ctx, a.ids[i], &a.places[i]); errors.Is(err, errLost) {
			a.need(p, path, lost)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// besides is the method of checker. A blob with wrong content is in no other pack.
func (a *attribution) besides(ctx context.Context, id format.ID, at *blobindex.Place) ([]byte, error) {
	if p := a.found.Why(id, blobindex.Found{}); at.Lost() || p != nil && p.Kind != Pack {
		return nil, errLost
	}
	return a.checker.besides(ctx, a.hasher, id, at)
}
