package store

import (
	"context"
	"errors"
)

// Discard removes a file; a missing one is no error. So a store that would have to look first need not.
func Discard(ctx context.Context, st Store, name Name) error {
	err := DeleteUnseen(ctx, st, name)
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

// DeleteUnseen is Delete, but a missing file is ErrNotExist only where the store knows that without looking first.
func DeleteUnseen(ctx context.Context, st Store, name Name) error {
	return st.Delete(context.WithValue(ctx, anyway, true), name)
}

// Anyway reports whether a removal belongs to Discard or DeleteUnseen.
func Anyway(ctx context.Context) bool { return ctx.Value(anyway) != nil }

// Passing returns a context in which PutNew takes a name for a moment: the caller removes the file next. It need not be
// durable, nor read back. That one of several callers gets the name holds as ever.
func Passing(ctx context.Context) context.Context { return context.WithValue(ctx, passing, true) }

// IsPassing reports whether ctx is of Passing.
func IsPassing(ctx context.Context) bool { return ctx.Value(passing) != nil }
