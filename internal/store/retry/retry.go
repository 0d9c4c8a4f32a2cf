// Package retry is a decorator that repeats operations whose error wraps store.ErrTemporary.
package retry

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Policy limits the retries.
type Policy struct {
	Attempts int           // at most, including the first; below 1 counts as 1
	First    time.Duration // wait before the second attempt; it doubles from there
	Max      time.Duration // longest wait; 0: no limit
	// Notify, if set, is called once for an outage with what failed first, and why. Back is called at the end. Both
	// run in the goroutine of an operation.
	Notify func(what string, err error)
	Back   func()
}

// DefaultPolicy rides out a server that restarts: seven attempts within about half a minute.
func DefaultPolicy() Policy {
	return Policy{Attempts: 7, First: 500 * time.Millisecond, Max: 15 * time.Second}
}

// Store is a decorator that retries.
type Store struct {
	store.Store
	policy Policy
	outage store.Outage
}

var _ store.Store = (*Store)(nil)

// Wrap returns st with operations repeated according to the policy.
func Wrap(st store.Store, p Policy) *Store { return &Store{Store: st, policy: p} }

// Inner returns the store that is decorated.
func (s *Store) Inner() store.Store { return s.Store }

// Put repeats; each attempt replaces the file atomically.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	return s.do(ctx, "put", name.Path, func(int) error { return s.Store.Put(ctx, name, data) })
}

// PutNew repeats. If an answer was lost, a later attempt may find the caller's own file.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (info store.Info, err error) {
	err = s.do(ctx, "put new", name.Path, func(int) error {
		info, err = s.Store.PutNew(ctx, name, data)
		return err
	})
	return info, err
}

// Fence repeats.
func (s *Store) Fence(ctx context.Context, name store.Name) error {
	return s.do(ctx, "fence", name.Path, func(int) error { return s.Store.Fence(ctx, name) })
}

// Unfenced repeats.
func (s *Store) Unfenced(ctx context.Context, name store.Name) (at time.Time, err error) {
	err = s.do(ctx, "look for", name.Path, func(int) error {
		at, err = store.Unfenced(ctx, s.Store, name)
		return err
	})
	return at, err
}

// Lock repeats extensions.
func (s *Store) Lock() *store.Lock {
	return store.LockOf(s.Store).Around(func(ctx context.Context, name store.Name, extend func() error) error {
		return s.do(ctx, "extend the lock of", name.Path, func(int) error { return extend() })
	})
}

// Get repeats the whole range.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	return s.do(ctx, "get", name.Path, func(int) error { return s.Store.Get(ctx, name, off, p) })
}

// Stat repeats.
func (s *Store) Stat(ctx context.Context, name store.Name) (info store.Info, err error) {
	err = s.do(ctx, "stat", name.Path, func(int) error {
		info, err = s.Store.Stat(ctx, name)
		return err
	})
	return info, err
}

// Delete repeats. If the file is missing at a later attempt, an earlier one removed it and its answer was lost.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	return s.do(ctx, "delete", name.Path, func(attempt int) error {
		err := s.Store.Delete(ctx, name)
		if attempt > 1 && errors.Is(err, store.ErrNotExist) {
			return nil
		}
		return err
	})
}

// List repeats, and leaves out what it has yielded before. It remembers 8 bytes of each file.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return s.list(ctx, kind, s.Store.List(ctx, kind))
}

// Together repeats like List.
func (s *Store) Together() store.Lister {
	inner := store.Together(s.Store)
	if inner == nil {
		return nil
	}
	return func(ctx context.Context, kinds ...store.Kind) iter.Seq2[store.Info, error] {
		return s.list(ctx, kinds[0], inner(ctx, kinds...))
	}
}

func (s *Store) list(ctx context.Context, kind store.Kind, inner iter.Seq2[store.Info, error]) iter.Seq2[store.Info,
	error] {
	return func(yield func(store.Info, error) bool) {
		seed, yielded := maphash.MakeSeed(), []uint64(nil)
		err := s.do(ctx, "list", kind.String, func(int) error {
			before := make(map[uint64]bool, len(yielded)) // an attempt broke off
			for _, sum := range yielded {
				before[sum] = true
			}
			for info, err := range inner {
				if err != nil {
					return err
				}
				sum := maphash.Comparable(seed, info.Name)
				if before[sum] {
					continue
				}
				yielded = append(yielded, sum)
				if !yield(info, nil) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(store.Info{}, err)
		}
	}
}

// do runs op until it succeeds, fails finally, or the attempts are used up. op gets the number of the attempt, from 1.
// name is called only after a failure.
func (s *Store) do(ctx context.Context, verb string, name func() string, op func(attempt int) error) (err error) {
	wait, waited := s.policy.First, false
	defer func() { s.outage.Leave(waited, err, s.policy.Back) }()
	for attempt := 1; ; attempt++ {
		err := op(attempt)
		// A connection that timed out passes for context.DeadlineExceeded: only ctx shows that the caller has given up.
		if err == nil || ctx.Err() != nil || !store.Retryable(err) || attempt >= s.policy.Attempts {
			return err
		}
		s.outage.Begin(&waited)
		pause := jitter(wait)
		if s.policy.Notify != nil && s.outage.News() {
			s.policy.Notify(verb+" "+name(), err)
		}
		if stopped := store.Sleep(ctx, pause); stopped != nil {
			return fmt.Errorf("%w while waiting to try again after: %w", stopped, err)
		}
		wait *= 2
		if s.policy.Max > 0 {
			wait = min(wait, s.policy.Max)
		}
	}
}

// jitter returns a wait of half to one and a half times d, so that the clients of a server do not return at once.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d)
}
