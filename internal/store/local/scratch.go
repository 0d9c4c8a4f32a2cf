package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Scratch makes a temporary folder in the existing folder parent, calls use with its name, and removes it with its
// contents, also after ctx has ended. open returns a store in a folder next to it. Scratch folders of programs that
// were killed are removed after a day by the clock of the target.
func Scratch(ctx context.Context, parent string, pass *iopolicy.Pass,
	use func(name string, open func(name string) store.Store) error) (err error) {
	s, err := newStore(parent, pass)
	if err != nil {
		return err
	}
	name := store.TempName(store.ScratchPrefix)
	at := s.abs(name)
	if err := s.metadata(ctx, func() error { return os.Mkdir(at, dirMode) }); err != nil {
		return s.explain(ctx, err)
	}
	defer func() {
		// Like that of a temporary file, the removal does not wait at the gate.
		if failed := os.RemoveAll(at); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove temporary folder %s: %w", name, s.explain(ctx, failed)))
		}
	}()
	s.sweep(ctx, at, 0)
	return use(name, func(name string) store.Store { return &Store{root: s.abs(name), pass: pass} })
}
