package store

import "context"

// IntoReserve lets Put use the last space of a disk. A store in a folder refuses packs that would take it, so that a
// repository which fills its disk can still be pruned: prune writes a lease, a mark and index segments before it
// removes packs, and it may write small packs to empty large ones.
func IntoReserve(ctx context.Context) context.Context {
	return context.WithValue(ctx, intoReserve, true)
}

// MayUseReserve reports whether ctx comes from IntoReserve.
func MayUseReserve(ctx context.Context) bool { return ctx.Value(intoReserve) != nil }
