package local

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// RenameError is renameError, for situations that cannot be brought about from outside.
func RenameError(temp, path string, err error) error { return renameError(temp, path, err) }

// WaysToPlaceNew returns the parts of placeNew.
func WaysToPlaceNew() map[string]func(fd int, temp, path string) error {
	return map[string]func(int, string, string) error{"rename": renameNew, "link": linkNew, "copy": copyNew}
}

// Explain is explain.
func (s *Store) Explain(err error) error { return s.explain(context.Background(), err) }

// Guard is guard.
func (s *Store) Guard(ctx context.Context) error { return s.guard(ctx) }

// SkipsFlush is skipsFlush.
func (s *Store) SkipsFlush(kind store.Kind) bool { return s.skipsFlush(kind) }
