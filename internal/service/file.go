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

// read returns the definition of the service; "" if there is none. head is how each one begins that Install wrote.
func read(path, head string) (string, error) {
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the definition of the service: %w", err)
	case !strings.HasPrefix(string(content), head):
		return "", fmt.Errorf("%s: it was not written by 'tidemark service install': move it away first", path)
	}
	return string(content), nil
}

// write replaces the definition in one step.
func write(path, text string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = optionfile.Replace(path, []byte(text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the definition of the service: %w", err)
	}
	return nil
}
