package store

import (
	"context"
	"time"
)

// Lock is how a store keeps files: the content of one cannot be removed until its term is over.
type Lock struct {
	Name string // in the form in which it is given; "": files are not locked
	// Config is what the config of the repository says, which an attacker with the keys of a machine can change; "": no
	// lock. It is known when the config has been read.
	Config string
	Term   time.Duration
	// Extend begins the term of a file once more. A lock that lasts longer stays. A file that is locked in another way,
	// and a config that says another lock, are stored once more.
	Extend func(ctx context.Context, name Name) error
	// Keep replaces the lock, whatever the config says.
	Keep func(name string) error
}

// LockOf returns the lock of st; nil: it cannot lock files. A store implements it by a method Lock() *Lock.
func LockOf(st Store) *Lock {
	if l, ok := find[interface{ Lock() *Lock }](st); ok {
		return l.Lock()
	}
	return nil
}

// Around returns l with extensions that go through do; nil stays nil.
func (l *Lock) Around(do func(ctx context.Context, name Name, extend func() error) error) *Lock {
	if l == nil {
		return nil
	}
	outer := *l
	outer.Extend = func(ctx context.Context, name Name) error {
		return do(ctx, name, func() error { return l.Extend(ctx, name) })
	}
	return &outer
}

// Locked reports whether files of the kind are locked where a store has a lock. Leases and marks come and go.
func (k Kind) Locked() bool { return k != Lease && k != Mark }
