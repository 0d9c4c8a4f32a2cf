package session

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// discard is the store of a dry run: it passes reads through and discards writes.
type discard struct{ store.Store }

func (d discard) Put(context.Context, store.Name, []byte) error { return nil }

func (d discard) PutNew(context.Context, store.Name, []byte) (store.Info, error) {
	return store.Info{}, nil
}

func (d discard) Fence(context.Context, store.Name) error { return nil }

func (d discard) Delete(context.Context, store.Name) error { return nil }
