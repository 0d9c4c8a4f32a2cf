// Package meter counts what passes between the engine and a store, for progress, the session report and tests that
// assert how many operations something costs. It changes nothing and refuses to know what the numbers are used for.
package meter

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Counters are totals since they were made. They are read while the store is in use.
type Counters struct {
	Puts, Gets, Stats, Lists, Deletes atomic.Uint64 // operations begun
	Failed                            atomic.Uint64 // operations that returned an error
	BytesPut                          atomic.Uint64 // bytes of the Puts that succeeded
	BytesGot                          atomic.Uint64 // bytes of the Gets that succeeded
}

// Operations returns how many operations of every sort were begun.
func (c *Counters) Operations() uint64 {
	return c.Puts.Load() + c.Gets.Load() + c.Stats.Load() + c.Lists.Load() + c.Deletes.Load()
}

// Store is a decorator that counts. Placed above retry it counts what the engine asked for, below it what the target saw.
type Store struct {
	inner store.Store
	count *Counters
}

var _ store.Store = (*Store)(nil)

// Wrap returns st with its traffic added to c, which several stores may share.
func Wrap(st store.Store, c *Counters) *Store { return &Store{inner: st, count: c} }

// Put counts one put and its bytes.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	s.count.Puts.Add(1)
	err := s.inner.Put(ctx, name, data)
	if s.note(err) {
		s.count.BytesPut.Add(uint64(len(data)))
	}
	return err
}

// Proves is what the store beneath says.
func (s *Store) Proves() bool { return store.Proves(s.inner) }

// Get counts one get and its bytes.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	s.count.Gets.Add(1)
	err := s.inner.Get(ctx, name, off, p)
	if s.note(err) {
		s.count.BytesGot.Add(uint64(len(p)))
	}
	return err
}

// Stat counts one stat.
func (s *Store) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	s.count.Stats.Add(1)
	info, err := s.inner.Stat(ctx, name)
	s.note(err)
	return info, err
}

// List counts one list each time the sequence is run.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		s.count.Lists.Add(1)
		for info, err := range s.inner.List(ctx, kind) {
			s.note(err)
			if !yield(info, err) {
				return
			}
		}
	}
}

// Delete counts one delete.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	s.count.Deletes.Add(1)
	err := s.inner.Delete(ctx, name)
	s.note(err)
	return err
}

// Location is that of the store beneath.
func (s *Store) Location() string { return s.inner.Location() }

// note counts a failure, and reports whether there was none.
func (s *Store) note(err error) bool {
	if err != nil {
		s.count.Failed.Add(1)
	}
	return err == nil
}
