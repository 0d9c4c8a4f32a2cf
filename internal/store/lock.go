package store

import (
	"context"
	"time"
)

// Lock is how a store keeps files: the content of one cannot be removed until its term is over.
type Lock struct {
	Term time.Duration
	// Extend begins the term of a file once more. A lock that lasts longer stays.
	Extend func(ctx context.Context, name Name) error
}

// LockOf returns the lock of st; nil: it has none. It is known when the config has been read. A store implements it by
// a method Lock() *Lock, which decorators forward.
func LockOf(st Store) *Lock {
	if l, ok := st.(interface{ Lock() *Lock }); ok {
		return l.Lock()
	}
	return nil
}

// Locked reports whether files of the kind are locked where a store has a lock. Leases and marks come and go.
func (k Kind) Locked() bool { return k != Lease && k != Mark }
