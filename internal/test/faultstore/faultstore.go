// Package faultstore is a decorator for tests that makes the i-th operation of a store fail in a chosen way. A test
// runs its scenario once without a fault to count the operations, then once for each of them. Failures are
// deterministic.
package faultstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// ErrInjected is wrapped by the error of every operation that this package fails.
var ErrInjected = errors.New("injected fault")

// Op is a kind of operation, as a bit so that a plan can name several.
type Op uint8

// The operations of a store.
const (
	Put Op = 1 << iota
	Get
	Stat
	List
	Delete
	Any = Put | Get | Stat | List | Delete
)

// Effect is the kind of failure of the chosen operation.
type Effect uint8

// The effects. One that does not fit the chosen operation (Torn on a Get) acts as Refuse. On a List, Unsure yields
// everything before it fails.
const (
	Refuse  Effect = iota // an error, and nothing was done
	Unsure                // done, but an error is returned: the answer was lost
	Torn                  // Put: the first half becomes visible under the name, and an error is returned
	Silent                // Put: the first half becomes visible under the name, and success is returned
	Corrupt               // Get: one bit of the answer is wrong, and success is returned
	Partial               // List: half of the files come, and then an error
)

// Plan chooses the operations that fail. The zero Plan fails none and only counts.
type Plan struct {
	At     int        // number of the operation that fails, from 1, among those that match; 0: none
	Ops    Op         // which operations match; 0: any
	Kind   store.Kind // only files of this kind match; 0: any
	Effect Effect
	Sticky bool  // every later matching operation is refused as well: the target died
	Err    error // wrapped besides ErrInjected, such as store.ErrNoSpace; nil: none
}

// Store is a decorator that fails as planned, in the order in which operations arrive.
type Store struct {
	inner store.Store
	plan  Plan

	mu    sync.Mutex
	seen  int // operations that match the plan
	total int // all operations
	fired bool
	reads Reads
}

// Reads is how often each file was read.
type Reads map[store.Name]int

// Of is how often files of a kind were read.
func (r Reads) Of(kind store.Kind) (n int) {
	for name, times := range r {
		if name.Kind == kind {
			n += times
		}
	}
	return n
}

var _ store.Store = (*Store)(nil)

// Wrap returns st with a plan.
func Wrap(st store.Store, plan Plan) *Store {
	if plan.Ops == 0 {
		plan.Ops = Any
	}
	return &Store{inner: st, plan: plan}
}

// Under returns the inner store, which does not fail.
func (s *Store) Under() store.Store { return s.inner }

// Matched returns how many operations matched the plan so far: the number of runs that are needed.
func (s *Store) Matched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Operations returns the number of all operations.
func (s *Store) Operations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Reads returns how often each file was read since the last call.
func (s *Store) Reads() Reads {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := s.reads
	s.reads = nil
	return reads
}

// Fired reports whether the planned operation happened.
func (s *Store) Fired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired
}

// Put fails, tears or forwards.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	effect, hit := s.next(Put, name.Kind)
	if !hit {
		return s.inner.Put(ctx, name, data)
	}
	switch effect {
	case Unsure:
		if err := s.inner.Put(ctx, name, data); err != nil {
			return err
		}
	case Torn, Silent:
		if err := s.inner.Put(ctx, name, data[:len(data)/2]); err != nil {
			return err
		}
		if effect == Silent {
			return nil
		}
	}
	return s.failure("put", name.String())
}

// PutNew fails, tears or forwards, as a Put.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	effect, hit := s.next(Put, name.Kind)
	if hit && effect == Refuse {
		return store.Info{}, s.failure("put", name.String())
	}
	if hit && effect != Unsure {
		data = data[:len(data)/2]
	}
	info, err := s.inner.PutNew(ctx, name, data)
	if err != nil || !hit || effect == Silent {
		return info, err
	}
	return store.Info{}, s.failure("put", name.String())
}

// Fence fails, before or after it, or forwards. It counts as a Put.
func (s *Store) Fence(ctx context.Context, name store.Name) error {
	effect, hit := s.next(Put, name.Kind)
	if !hit || effect == Unsure {
		if err := s.inner.Fence(ctx, name); err != nil || !hit {
			return err
		}
	}
	return s.failure("fence", name.String())
}

// Get fails, corrupts or forwards.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	effect, hit := s.next(Get, name.Kind)
	s.mu.Lock()
	if s.reads == nil {
		s.reads = Reads{}
	}
	s.reads[name]++
	s.mu.Unlock()
	if !hit {
		return s.inner.Get(ctx, name, off, p)
	}
	if effect == Unsure || effect == Corrupt {
		if err := s.inner.Get(ctx, name, off, p); err != nil {
			return err
		}
	}
	if effect == Corrupt {
		if len(p) > 0 {
			p[len(p)/2] ^= 0x10
		}
		return nil
	}
	return s.failure("get", name.String())
}

// Stat fails or forwards.
func (s *Store) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	if _, hit := s.next(Stat, name.Kind); hit {
		return store.Info{}, s.failure("stat", name.String())
	}
	return s.inner.Stat(ctx, name)
}

// List counts as one operation each time the sequence is run.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		effect, hit := s.next(List, kind)
		left := 0 // how many are yielded
		if !hit || effect == Unsure {
			left = math.MaxInt
		} else if effect == Partial {
			for _, err := range s.inner.List(ctx, kind) {
				if err == nil { // or it comes again with the second list
					left++
				}
			}
			left /= 2
		}
		if left > 0 {
			for info, err := range s.inner.List(ctx, kind) {
				if !yield(info, err) || err != nil {
					return
				}
				if left--; left == 0 {
					break
				}
			}
		}
		if hit {
			yield(store.Info{}, s.failure("list", kind.String()))
		}
	}
}

// Delete fails, before or after the removal, or forwards.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	effect, hit := s.next(Delete, name.Kind)
	if !hit {
		return s.inner.Delete(ctx, name)
	}
	if effect == Unsure {
		if err := s.inner.Delete(ctx, name); err != nil {
			return err
		}
	}
	return s.failure("delete", name.String())
}

// Location returns that of the inner store.
func (s *Store) Location() string { return s.inner.Location() }

// next counts an operation and returns its effect.
func (s *Store) next(op Op, kind store.Kind) (Effect, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	if s.plan.Ops&op == 0 || (s.plan.Kind != 0 && s.plan.Kind != kind) {
		return 0, false
	}
	s.seen++
	switch {
	case s.plan.At == 0 || s.seen < s.plan.At:
		return 0, false
	case s.seen == s.plan.At:
		s.fired = true
		return s.plan.Effect, true
	default:
		return Refuse, s.plan.Sticky
	}
}

func (s *Store) failure(verb, what string) error {
	if s.plan.Err != nil {
		return fmt.Errorf("%s %s: %w: %w", verb, what, ErrInjected, s.plan.Err)
	}
	return fmt.Errorf("%s %s: %w", verb, what, ErrInjected)
}

// Flip returns data with one bit changed at off.
func Flip(data []byte, off int) []byte {
	damaged := bytes.Clone(data)
	damaged[off] ^= 0x10
	return damaged
}
