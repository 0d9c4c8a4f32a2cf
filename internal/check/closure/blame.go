package closure

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/internal/check/finding"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/numset"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Blame finds out which paths of which snapshots need what is lost, by a second walk that only damage causes. Folders
// beneath which all is well are remembered, so that each is looked at once.
func (c *Closure) Blame(ctx context.Context, snapshots []repo.Listed) error {
	if !c.Book.AnyLost() {
		return nil
	}
	b := &blamer{c: c, hasher: c.Keys.Hasher(), clean: numset.New(c.Blobs.total)}
	for _, s := range snapshots {
		b.snapshot = s.ID.Short()
		if _, err := b.folder(ctx, s.Snapshot.Tree, ""); err != nil {
			return err
		}
	}
	return nil
}

type blamer struct {
	c        *Closure
	hasher   *seal.Hasher
	query    query
	clean    numset.Set // folders, by their number
	snapshot string
	ids      []format.ID // chunks of one file that were not looked up yet
}

// folder looks through a folder with that path, "" for the root, and reports whether something in it is lost.
func (b *blamer) folder(ctx context.Context, id format.ID, path string) (dirty bool, err error) {
	root, err := b.c.Blobs.one(&b.query, id)
	if err != nil {
		return false, err
	}
	if !root.lost() && b.clean.Has(root.number()) {
		return false, nil
	}
	at := path
	if at == "" {
		at = "/"
	}
	err = eachPage(ctx, b.loader(at, &dirty), id, func(page format.ID, pg *tree.Page, err error) error {
		if err != nil {
			return b.unreadable(ctx, page, at, err, &dirty)
		}
		if p := b.c.Book.Why(page, nil); p != nil { // it can be read, and does not mean what it should
			b.need(p, at, &dirty)
		}
		for i := range pg.Nodes {
			n := &pg.Nodes[i]
			bad, err := b.node(ctx, n, path+"/"+n.Name)
			if err != nil {
				return err
			}
			dirty = dirty || bad
		}
		return nil
	})
	if err == nil && !dirty { // so it was found
		b.clean.Add(root.number())
	}
	return dirty, err
}

func (b *blamer) need(p *finding.Problem, path string, dirty *bool) {
	*dirty = true
	b.c.Book.Need(p, b.snapshot, path)
}

// unreadable passes over a page that cannot be loaded or decoded.
func (b *blamer) unreadable(ctx context.Context, page format.ID, path string, err error, dirty *bool) error {
	if !errors.Is(err, errLost) && !wrong(err) || finding.Fatal(ctx, err) {
		return err
	}
	if p := b.c.Book.Why(page, nil); p != nil {
		b.need(p, path, dirty)
	}
	*dirty = true
	return nil
}

// loader returns a Load of pages that books each that is lost on the path.
func (b *blamer) loader(path string, dirty *bool) tree.Load {
	return func(ctx context.Context, id format.ID) ([]byte, error) {
		at, err := b.c.Blobs.one(&b.query, id)
		if err != nil {
			return nil, err
		}
		place, err := at.place()
		if err != nil {
			return nil, err
		}
		if p := b.c.Book.Why(id, place); p != nil && (at.lost() || p.Kind == finding.Pack) {
			b.need(p, path, dirty)
			return nil, errLost
		}
		if at.lost() {
			return nil, errLost // one of too many to be named
		}
		in, err := at.pack()
		if err != nil {
			return nil, err
		}
		p, err := b.c.Blobs.load(ctx, b.hasher, id, in, &at)
		if err != nil && !finding.Fatal(ctx, err) {
			return nil, errLost
		}
		return p, err
	}
}

func (b *blamer) node(ctx context.Context, n *tree.Node, path string) (dirty bool, err error) {
	switch {
	case n.Type == tree.Dir:
		return b.folder(ctx, n.Subtree, path)
	case n.Type != tree.File:
		return false, nil
	case n.Content.List.IsZero():
		return dirty, b.chunks(n.Content.Chunks, path, &dirty)
	}
	err = eachListPage(ctx, b.loader(path, &dirty), n.Content.List, func(id format.ID, pg *tree.ListPage, err error) error {
		if err != nil {
			return b.unreadable(ctx, id, path, err, &dirty)
		}
		if p := b.c.Book.Why(id, nil); p != nil {
			b.need(p, path, &dirty)
		}
		return b.chunks(pg.Chunks, path, &dirty)
	})
	return dirty, err
}

func (b *blamer) chunks(chunks []tree.Chunk, path string, dirty *bool) error {
	b.ids = b.ids[:0]
	for _, c := range chunks {
		if !c.IsHole() {
			b.ids = append(b.ids, c.ID)
		}
	}
	places, err := b.c.Blobs.locate(&b.query, b.ids)
	if err != nil {
		return err
	}
	for i := range places {
		at, err := places[i].place()
		if err != nil {
			return err
		}
		if p := b.c.Book.Why(b.ids[i], at); p != nil {
			b.need(p, path, dirty)
		}
	}
	return nil
}
