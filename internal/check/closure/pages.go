package closure

import (
	"context"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// eachPage visits the pages of a folder in their order, those that cannot be loaded or decoded too.
func eachPage(ctx context.Context, load tree.Load, id format.ID, visit func(format.ID, *tree.Page, error) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var pg *tree.Page
	p, err := load(ctx, id)
	if err == nil {
		pg, err = tree.DecodePage(p)
	}
	if err := visit(id, pg, err); err != nil || pg == nil {
		return err
	}
	for i := range pg.Children {
		if err := eachPage(ctx, load, pg.Children[i].ID, visit); err != nil {
			return err
		}
	}
	return nil
}

// eachListPage is eachPage for a list of chunks.
func eachListPage(ctx context.Context, load tree.Load, id format.ID,
	visit func(format.ID, *tree.ListPage, error) error,
) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var pg *tree.ListPage
	p, err := load(ctx, id)
	if err == nil {
		pg, err = tree.DecodeListPage(p)
	}
	if err := visit(id, pg, err); err != nil || pg == nil {
		return err
	}
	for i := range pg.Children {
		if err := eachListPage(ctx, load, pg.Children[i].ID, visit); err != nil {
			return err
		}
	}
	return nil
}
