package repo

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// slotAhead is a slot that is read while the slots are listed.
type slotAhead struct {
	name store.Name
	done chan struct{}
	raw  []byte // set once done is closed
	err  error  // likewise
}

// slotAheadKey is the key of a *slotAhead in a context.
type slotAheadKey struct{}

// readAhead begins to read a slot where each request takes a round trip, and one is enough without the size.
func readAhead(ctx context.Context, st store.Store, likely string) context.Context {
	id, err := format.ParseID(likely)
	if err != nil || store.Together(st) == nil {
		return ctx
	}
	a := &slotAhead{name: object.Named(store.Key, id), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.raw, a.err = object.ReadNamed(ctx, st, a.name, -1)
	}()
	return context.WithValue(ctx, slotAheadKey{}, a)
}

// readSlot returns the bytes of a listed slot.
func readSlot(ctx context.Context, st store.Store, info store.Info) ([]byte, error) {
	if a, ok := ctx.Value(slotAheadKey{}).(*slotAhead); ok && a.name == info.Name {
		if <-a.done; a.err == nil {
			return a.raw, nil
		}
	}
	return object.ReadNamed(ctx, st, info.Name, info.Size)
}
