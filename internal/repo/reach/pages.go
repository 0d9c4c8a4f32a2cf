package reach

import (
	"context"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// EachPage visits the pages of a directory in their order. A page that cannot be loaded or decoded is visited with its
// error, and the pages beside it are visited all the same. An error of visit ends it.
func EachPage(ctx context.Context, load tree.Load, id format.ID, visit func(format.ID, *tree.Page, error) error) error {
	return eachPage(ctx, load, id, tree.DecodePage, visit, func(pg *tree.Page) (below []format.ID) {
		for i := range pg.Children {
			below = append(below, pg.Children[i].ID)
		}
		return below
	})
}

// EachListPage is EachPage for a list of chunks.
func EachListPage(ctx context.Context, load tree.Load, id format.ID,
	visit func(format.ID, *tree.ListPage, error) error,
) error {
	return eachPage(ctx, load, id, tree.DecodeListPage, visit, func(pg *tree.ListPage) (below []format.ID) {
		for i := range pg.Children {
			below = append(below, pg.Children[i].ID)
		}
		return below
	})
}

func eachPage[P any](ctx context.Context, load tree.Load, id format.ID, decode func([]byte) (*P, error),
	visit func(format.ID, *P, error) error, below func(*P) []format.ID,
) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var pg *P
	p, err := load(ctx, id)
	if err == nil {
		pg, err = decode(p)
	}
	if err := visit(id, pg, err); err != nil || pg == nil {
		return err
	}
	for _, child := range below(pg) {
		if err := eachPage(ctx, load, child, decode, visit, below); err != nil {
			return err
		}
	}
	return nil
}
