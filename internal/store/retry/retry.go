// Package retry tries an operation on a store again when its failure may be over a moment later. It trusts the store
// beneath to say so (store.ErrTemporary) and refuses to guess from the text or the number of an error.
package retry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Policy says how often and how patiently.
type Policy struct {
	Attempts int           // at most, including the first; below 1 counts as 1
	First    time.Duration // wait before the second attempt; it doubles from there
	Max      time.Duration // longest wait; 0: no limit
	// Notify, if set, is told of an outage: what failed, why, and how long the wait is. It is told once for all who wait at
	// the same time, and again when the reason is another one or the waits have become longer. Back is told when it is over.
	// Both are called from the goroutine of an operation.
	Notify func(what string, err error, wait time.Duration)
	Back   func()
}

// DefaultPolicy rides out a server that restarts: seven attempts within about half a minute.
func DefaultPolicy() Policy {
	return Policy{Attempts: 7, First: 500 * time.Millisecond, Max: 15 * time.Second}
}

// Store is a decorator that retries.
type Store struct {
	inner  store.Store
	policy Policy
	outage store.Outage
}

var _ store.Store = (*Store)(nil)

// Wrap returns st with operations repeated as the policy says.
func Wrap(st store.Store, p Policy) *Store { return &Store{inner: st, policy: p} }

// Put may be repeated freely: it replaces the file atomically.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	return s.do(ctx, "put", name.Path, func(int) error { return s.inner.Put(ctx, name, data) })
}

// Proves is what the store beneath says.
func (s *Store) Proves() bool { return store.Proves(s.inner) }

// Get repeats the whole range.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	return s.do(ctx, "get", name.Path, func(int) error { return s.inner.Get(ctx, name, off, p) })
}

// Stat repeats.
func (s *Store) Stat(ctx context.Context, name store.Name) (info store.Info, err error) {
	err = s.do(ctx, "stat", name.Path, func(int) error {
		info, err = s.inner.Stat(ctx, name)
		return err
	})
	return info, err
}

// Delete repeats. A file that is missing at a later attempt was removed by an earlier one whose answer was lost.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	return s.do(ctx, "delete", name.Path, func(attempt int) error {
		err := s.inner.Delete(ctx, name)
		if attempt > 1 && errors.Is(err, store.ErrNotExist) {
			return nil
		}
		return err
	})
}

// List begins again only while nothing was yielded: a list has no order, so that there is no place to go on from, and
// remembering what was yielded would cost memory in proportion to the repository.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		yielded := false
		err := s.do(ctx, "list", kind.String, func(int) error {
			for info, err := range s.inner.List(ctx, kind) {
				if err != nil && !yielded {
					return err
				}
				yielded = true
				if !yield(info, err) {
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

// Location is that of the store beneath.
func (s *Store) Location() string { return s.inner.Location() }

// do runs op until it succeeds, fails for good, or the attempts are used up. op is told the number of the attempt,
// from 1; name is only asked for when something failed.
func (s *Store) do(ctx context.Context, verb string, name func() string, op func(attempt int) error) (err error) {
	wait, waited := s.policy.First, false
	defer func() { s.outage.Leave(waited, err, s.policy.Back) }()
	for attempt := 1; ; attempt++ {
		err := op(attempt)
		if err == nil || !again(err) || attempt >= s.policy.Attempts {
			return err
		}
		s.outage.Begin(&waited)
		pause := jitter(wait)
		if what := verb + " " + name(); s.policy.Notify != nil && s.outage.News(reason(what, err), wait) {
			s.policy.Notify(what, err, pause)
		}
		if stopped := sleep(ctx, pause); stopped != nil {
			return fmt.Errorf("%w while waiting to try again after: %w", stopped, err)
		}
		wait *= 2
		if s.policy.Max > 0 {
			wait = min(wait, s.policy.Max)
		}
	}
}

// reason is why something failed, without what it was.
func reason(what string, err error) string {
	return strings.TrimPrefix(store.Brief(err).Error(), what+": ")
}

// again reports whether another attempt makes sense. What another attempt cannot mend wins over the mark.
func again(err error) bool {
	for _, final := range []error{
		store.ErrNotExist, store.ErrShort, store.ErrDenied, store.ErrNoSpace, store.ErrName,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return errors.Is(err, store.ErrTemporary)
}

// jitter spreads waits over half to one and a half times d, so that many clients of one server do not come back at
// the same moment.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d)
}

// sleep waits for d, or returns the cause when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
