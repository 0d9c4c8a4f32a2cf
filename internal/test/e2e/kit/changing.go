package kit

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// OnPut calls a function before each pack is stored; the backup then waits for it.
type OnPut struct {
	store.Store
	OnPack func()
}

func (s *OnPut) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Pack {
		s.OnPack()
	}
	return s.Store.Put(ctx, name, data)
}
