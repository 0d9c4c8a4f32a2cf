// Package meter is a decorator for tests that reports each operation on a store to an observer, for one that counts. It
// changes nothing.
package meter

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Operation is a method of a store.
type Operation uint8

// The operations.
const (
	Put Operation = iota
	Get
	Stat
	List
	Delete

	operations = iota
)

// Result is an operation that has ended.
type Result struct {
	Name  store.Name // zero for List
	Bytes int        // of a Put or a Get that succeeded
	Took  time.Duration
	Err   error
}

// Observer is called before each operation, from any goroutine. The function that it returns, if any, is called after
// it.
type Observer func(ctx context.Context, op Operation) (end func(Result))

// Store is a decorator that reports operations. Above retry it sees those of the engine, below it those of the target.
type Store struct {
	store.Store
	observe Observer
}

var _ store.Store = (*Store)(nil)

// Wrap returns st with its operations reported to observe.
func Wrap(st store.Store, observe Observer) *Store { return &Store{Store: st, observe: observe} }

// Inner returns the store that is decorated.
func (s *Store) Inner() store.Store { return s.Store }

// begin reports the start of an operation, and returns what reports its end.
func (s *Store) begin(ctx context.Context, op Operation, name store.Name) func(bytes int, err error) {
	end := s.observe(ctx, op)
	if end == nil {
		return func(int, error) {}
	}
	start := time.Now()
	return func(bytes int, err error) {
		if err != nil {
			bytes = 0
		}
		end(Result{Name: name, Bytes: bytes, Took: time.Since(start), Err: err})
	}
}

// Put passes on to the inner store.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	end := s.begin(ctx, Put, name)
	err := s.Store.Put(ctx, name, data)
	end(len(data), err)
	return err
}

// PutNew passes on to the inner store. It counts as a Put.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	end := s.begin(ctx, Put, name)
	info, err := s.Store.PutNew(ctx, name, data)
	end(len(data), err)
	return info, err
}

// Fence passes on to the inner store. It counts as a Put.
func (s *Store) Fence(ctx context.Context, name store.Name) error {
	end := s.begin(ctx, Put, name)
	err := s.Store.Fence(ctx, name)
	end(0, err)
	return err
}

// Get passes on to the inner store.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	end := s.begin(ctx, Get, name)
	err := s.Store.Get(ctx, name, off, p)
	end(len(p), err)
	return err
}

// Stat passes on to the inner store.
func (s *Store) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	end := s.begin(ctx, Stat, name)
	info, err := s.Store.Stat(ctx, name)
	end(0, err)
	return info, err
}

// List passes on to the inner store. Each run of the sequence is an operation, and fails with the last error in it.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return s.list(ctx, s.Store.List(ctx, kind))
}

// Together passes on to the inner store. A list of several kinds is one operation.
func (s *Store) Together() store.Lister {
	inner := store.Together(s.Store)
	if inner == nil {
		return nil
	}
	return func(ctx context.Context, kinds ...store.Kind) iter.Seq2[store.Info, error] {
		return s.list(ctx, inner(ctx, kinds...))
	}
}

func (s *Store) list(ctx context.Context, inner iter.Seq2[store.Info, error]) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		end := s.begin(ctx, List, store.Name{})
		var failed error
		defer func() { end(0, failed) }()
		for info, err := range inner {
			if err != nil {
				failed = err
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Delete passes on to the inner store.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	end := s.begin(ctx, Delete, name)
	err := s.Store.Delete(ctx, name)
	end(0, err)
	return err
}

// Unfenced passes on to the inner store. It counts as a Stat.
func (s *Store) Unfenced(ctx context.Context, name store.Name) (time.Time, error) {
	end := s.begin(ctx, Stat, name)
	at, err := store.Unfenced(ctx, s.Store, name)
	end(0, err)
	return at, err
}

// Lock passes on to the inner store. An extension counts as a Put.
func (s *Store) Lock() *store.Lock {
	return store.LockOf(s.Store).Around(func(ctx context.Context, name store.Name, extend func() error) error {
		end := s.begin(ctx, Put, name)
		err := extend()
		end(0, err)
		return err
	})
}

// Counters is an observer that counts. Several stores may share one, and it may be read while they are in use.
type Counters struct {
	Puts, Gets, Stats, Lists, Deletes atomic.Uint64 // operations begun
	Failed                            atomic.Uint64 // operations that returned an error
	BytesPut                          atomic.Uint64 // bytes of the Puts that succeeded
	BytesGot                          atomic.Uint64 // bytes of the Gets that succeeded
}

// Operations returns the number of operations of any kind that were begun.
func (c *Counters) Operations() uint64 {
	return c.Puts.Load() + c.Gets.Load() + c.Stats.Load() + c.Lists.Load() + c.Deletes.Load()
}

// Observe is the Observer.
func (c *Counters) Observe(_ context.Context, op Operation) func(Result) {
	[operations]*atomic.Uint64{&c.Puts, &c.Gets, &c.Stats, &c.Lists, &c.Deletes}[op].Add(1)
	return func(r Result) {
		switch {
		case r.Err != nil:
			c.Failed.Add(1)
		case op == Put:
			c.BytesPut.Add(uint64(r.Bytes))
		case op == Get:
			c.BytesGot.Add(uint64(r.Bytes))
		}
	}
}
