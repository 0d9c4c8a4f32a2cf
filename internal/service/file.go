package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// written is in a comment at the beginning of each definition.
const written = "Written by 'tidemark service install'; it is replaced without notice."

// file is the definition of the service.
type file struct {
	path string
	head string // how each one begins that Install wrote
}

// read returns the content; "" if there is none.
func (f file) read() (string, error) {
	content, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the definition of the service: %w", err)
	case !strings.HasPrefix(string(content), f.head):
		return "", fmt.Errorf("%s: %w", f.path, ErrForeign)
	}
	return string(content), nil
}

// write replaces the content in one step.
func (f file) write(text string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the definition of the service: %w", err)
		}
	}()
	folder := filepath.Dir(f.path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	fresh, err := os.CreateTemp(folder, ".tidemark-*")
	if err != nil {
		return err
	}
	_, err = fresh.WriteString(text)
	err = errors.Join(err, fresh.Chmod(0o644), pages.Sync(fresh, false), fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), f.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(fresh.Name()))
	}
	return err
}
