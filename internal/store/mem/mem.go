// Package mem is a store in memory, for tests.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Store keeps files in a map.
type Store struct {
	mu    sync.RWMutex
	files map[store.Name]file
}

// file is immutable once it is in the map, so that a reader needs no lock while it copies.
type file struct {
	data     []byte
	modified time.Time
	fence    bool
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return &Store{files: make(map[store.Name]file)} }

// Put keeps a copy of data.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	if err := admit(ctx, name); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	f := file{data: bytes.Clone(data), modified: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[name].fence {
		return fmt.Errorf("put %s: %w", name, store.ErrFenced)
	}
	s.files[name] = f
	return nil
}

// PutNew keeps a copy of data if there is no file. That rests on a lock.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	f := file{data: bytes.Clone(data), modified: time.Now()}
	err := admit(ctx, name)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if had, taken := s.files[name]; had.fence {
			err = store.ErrFenced
		} else if taken {
			err = store.ErrExists
		}
	}
	if err != nil {
		return store.Info{}, fmt.Errorf("put new %s: %w", name, err)
	}
	s.files[name] = f
	return f.info(name), nil
}

// Fence takes the name of a lease.
func (s *Store) Fence(ctx context.Context, name store.Name) error {
	err := name.CheckFence()
	if err == nil {
		err = admit(ctx, name)
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if had, taken := s.files[name]; !taken {
			s.files[name] = file{modified: time.Now(), fence: true}
		} else if !had.fence {
			err = store.ErrExists
		}
	}
	if err != nil {
		return fmt.Errorf("fence %s: %w", name, err)
	}
	return nil
}

// info describes the file under its name.
func (f *file) info(name store.Name) store.Info {
	return store.Info{Name: name, Size: int64(len(f.data)), Modified: f.modified, Fence: f.fence}
}

// Get copies len(p) bytes from off.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	f, err := s.find(ctx, name)
	if err != nil {
		return fmt.Errorf("get %s: %w", name, err)
	}
	if off < 0 {
		return fmt.Errorf("get %s: negative offset %d", name, off)
	}
	if len(p) == 0 {
		return nil
	}
	if size := int64(len(f.data)); off > size || int64(len(p)) > size-off {
		return fmt.Errorf("get %s: %w: has %d bytes, want %d from %d", name, store.ErrShort, size, len(p), off)
	}
	copy(p, f.data[off:])
	return nil
}

// Stat returns size and time of the last Put.
func (s *Store) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	f, err := s.find(ctx, name)
	if err != nil {
		return store.Info{}, fmt.Errorf("stat %s: %w", name, err)
	}
	return f.info(name), nil
}

// Coherent returns true.
func (s *Store) Coherent() bool { return true }

// Unfenced looks whether nothing has the name.
func (s *Store) Unfenced(ctx context.Context, name store.Name) (time.Time, error) {
	return store.UnfencedBy(s.Stat(ctx, name))
}

// List yields the files that were there when it began.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if !kind.Valid() {
			yield(store.Info{}, fmt.Errorf("list %s: %w", kind, store.ErrName))
			return
		}
		for _, info := range s.collect(kind) {
			if ctx.Err() != nil {
				yield(store.Info{}, fmt.Errorf("list %s: %w", kind, context.Cause(ctx)))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(store.Info{}, fmt.Errorf("list %s: %w", kind, context.Cause(ctx)))
		}
	}
}

// Delete forgets the file.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	if err := admit(ctx, name); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.files[name]; !ok {
		return fmt.Errorf("delete %s: %w", name, store.ErrNotExist)
	}
	delete(s.files, name)
	return nil
}

// Location says that this is memory.
func (s *Store) Location() string { return "memory" }

func (s *Store) find(ctx context.Context, name store.Name) (file, error) {
	if err := admit(ctx, name); err != nil {
		return file{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	f, ok := s.files[name]
	if !ok {
		return file{}, store.ErrNotExist
	}
	return f, nil
}

func (s *Store) collect(kind store.Kind) []store.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []store.Info
	for name, f := range s.files {
		if name.Kind == kind {
			infos = append(infos, f.info(name))
		}
	}
	return infos
}

func admit(ctx context.Context, name store.Name) error {
	if err := name.Check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
