// Package mem is a store in memory, for tests.
package mem

import (
	"bytes"
	"cmp"
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
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) (err error) {
	defer store.Wrap(&err, "put", name)
	if err := store.Admit(ctx, name); err != nil {
		return err
	}
	f := file{data: bytes.Clone(data), modified: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[name].fence {
		return store.ErrFenced
	}
	s.files[name] = f
	return nil
}

// PutNew keeps a copy of data if there is no file. That rests on a lock.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (_ store.Info, err error) {
	defer store.Wrap(&err, "put new", name)
	if err := store.Admit(ctx, name); err != nil {
		return store.Info{}, err
	}
	f := file{data: bytes.Clone(data), modified: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, taken := s.files[name]; had.fence {
		return store.Info{}, store.ErrFenced
	} else if taken {
		return store.Info{}, store.ErrExists
	}
	s.files[name] = f
	return f.info(name), nil
}

// Fence takes the name of a lease.
func (s *Store) Fence(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "fence", name)
	if err = cmp.Or(name.CheckFence(), store.Admit(ctx, name)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, taken := s.files[name]; !taken {
		s.files[name] = file{modified: time.Now(), fence: true}
	} else if !had.fence {
		return store.ErrExists
	}
	return nil
}

// info describes the file under its name.
func (f *file) info(name store.Name) store.Info {
	return store.Info{Name: name, Size: int64(len(f.data)), Modified: f.modified, Fence: f.fence}
}

// Get copies len(p) bytes from off.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) (err error) {
	defer store.Wrap(&err, "get", name)
	f, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	if off < 0 {
		return fmt.Errorf("negative offset %d", off)
	}
	if len(p) == 0 {
		return nil
	}
	if size := int64(len(f.data)); off > size || int64(len(p)) > size-off {
		return fmt.Errorf("%w: has %d bytes, want %d from %d", store.ErrShort, size, len(p), off)
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
	return store.Listing(ctx, kind, func(pass func(store.Info) error) error {
		for _, info := range s.collect(kind) {
			if err := pass(info); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	})
}

// Delete forgets the file.
func (s *Store) Delete(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "delete", name)
	if err := store.Admit(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.files[name]; !ok {
		return store.ErrNotExist
	}
	delete(s.files, name)
	return nil
}

// Location says that this is memory.
func (s *Store) Location() string { return "memory" }

func (s *Store) find(ctx context.Context, name store.Name) (file, error) {
	if err := store.Admit(ctx, name); err != nil {
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
