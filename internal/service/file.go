package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
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
		return "", fmt.Errorf("%s: it was not written by 'tidemark service install': move it away first", f.path)
	}
	return string(content), nil
}

// write replaces the content in one step.
func (f file) write(text string) error {
	err := os.MkdirAll(filepath.Dir(f.path), 0o755)
	if err == nil {
		err = optionfile.Replace(f.path, []byte(text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the definition of the service: %w", err)
	}
	return nil
}
