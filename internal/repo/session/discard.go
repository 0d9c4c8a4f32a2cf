package session

import (
	"context"
	"iter"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// discard is the store of a dry run: it passes reads through and discards writes.
type discard struct{ under store.Store }

func (d discard) Put(context.Context, store.Name, []byte) error { return nil }

func (d discard) PutNew(context.Context, store.Name, []byte) (store.Info, error) {
	return store.Info{}, nil
}

func (d discard) Fence(context.Context, store.Name) error { return nil }

func (d discard) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	return d.under.Get(ctx, name, off, p)
}

func (d discard) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	return d.under.Stat(ctx, name)
}

func (d discard) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return d.under.List(ctx, kind)
}

func (d discard) Delete(context.Context, store.Name) error { return nil }

func (d discard) Location() string { return d.under.Location() }
