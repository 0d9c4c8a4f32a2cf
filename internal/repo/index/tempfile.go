package index

import (
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
)

// InMemory stands for the folder of a Temporary in memory.
const InMemory = "memory"

// OpenTemporary creates an index with numbered blobs in a file of OpenTempFile, or InMemory.
func (x *Index) OpenTemporary(dir string) (*Temporary, error) {
	if dir == InMemory {
		return newTemporary(new(memoryFile)), nil
	}
	f, err := x.OpenTempFile(dir)
	if err != nil {
		return nil, fmt.Errorf("make the temporary index: %w", err)
	}
	return newTemporary(f), nil
}

// OpenTempFile creates a temporary file in folder dir, which is created if it is missing. If dir is "" or cannot be
// used, the file is in the system's folder for temporary files.
func (x *Index) OpenTempFile(dir string) (*cachefile.Plain, error) {
	temp := os.TempDir()
	if dir == "" {
		dir = temp
	}
	f, err := cachefile.OpenTempFile(dir, x.cache.io(dir))
	if err == nil || errors.Is(err, localfs.ErrStopped) || dir == temp {
		return f, err
	}
	f, other := cachefile.OpenTempFile(temp, x.cache.io(temp))
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return f, nil
}
