package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Scratch makes a temporary folder in the existing folder parent, calls use with its name, and removes it with its
// contents, also after ctx has ended. Scratch folders of programs that were killed are removed after a day by the clock
// of the target.
func Scratch(ctx context.Context, parent string, pass *iopolicy.Pass, use func(name string) error) (err error) {
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
	s.removeStaleScratch(ctx, at)
	return use(name)
}

// removeStaleScratch removes the scratch folders of killed programs. Errors are ignored.
func (s *Store) removeStaleScratch(ctx context.Context, fresh string) {
	var now fs.FileInfo
	err := s.metadata(ctx, func() (err error) {
		now, err = os.Stat(fresh)
		return err
	})
	if err != nil {
		return
	}
	limit := now.ModTime().Add(-store.StaleAfter)
	_ = s.listDir(ctx, s.root, func(e fs.DirEntry) error {
		if e.IsDir() && strings.HasPrefix(e.Name(), store.ScratchPrefix) {
			if info, err := s.info(ctx, e); err == nil && info.ModTime().Before(limit) {
				_ = s.metadata(ctx, func() error { return os.RemoveAll(filepath.Join(s.root, e.Name())) })
			}
		}
		return nil
	})
}
