package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Coherent reports whether what any program has put or removed shows at once in each Stat and List of all programs, on
// every machine. On a mounted share it may show seconds later. A store implements it by a method Coherent() bool;
// without that method the result is false.
func Coherent(st Store) bool {
	c, ok := find[interface{ Coherent() bool }](st)
	return ok && c.Coherent()
}

// Unfenced asks whether nothing has the name of a lease, and returns the time of the target at the answer. It returns
// ErrFenced for a fence, ErrExists for a file, and errors.ErrUnsupported if the store cannot say it with certainty. A
// store implements it by a method of the same name without st.
func Unfenced(ctx context.Context, st Store, name Name) (time.Time, error) {
	if u, ok := find[interface {
		Unfenced(ctx context.Context, name Name) (time.Time, error)
	}](st); ok {
		return u.Unfenced(ctx, name)
	}
	return time.Time{}, errors.ErrUnsupported
}

// UnfencedBy is Unfenced for a store whose clock is that of this machine.
func UnfencedBy(info Info, err error) (time.Time, error) {
	switch {
	case errors.Is(err, ErrNotExist):
		return time.Now(), nil
	case err != nil:
		return time.Time{}, err
	case info.Fence:
		return time.Time{}, fmt.Errorf("look for %s: %w", info.Name, ErrFenced)
	}
	return time.Time{}, fmt.Errorf("look for %s: %w", info.Name, ErrExists)
}
