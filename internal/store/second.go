package store

import (
	"context"
	"time"
)

// SecondLook returns a context for reading again what seemed damaged: a store on another machine uses a connection that
// begins after this call, since the earlier one may change bits. Other stores ignore it.
func SecondLook(ctx context.Context) context.Context {
	return context.WithValue(ctx, secondLook, time.Now())
}

// ConnectedSince returns when the connection of an operation must have begun at the earliest; the zero time: ever.
func ConnectedSince(ctx context.Context) time.Time {
	since, _ := ctx.Value(secondLook).(time.Time)
	return since
}
