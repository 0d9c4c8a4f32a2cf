package index

import (
	"errors"
	"os"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
)

// InMemory stands for the folder of a Temporary in memory.
const InMemory = "memory"

// OpenTemporary creates an index with numbered blobs in folder dir, or InMemory. If dir is "" or cannot be used, it is
// created in the system's folder for temporary files.
func (x *Index) OpenTemporary(dir string) (*Temporary, error) {
	if dir == InMemory {
		return newTemporary(new(memoryFile)), nil
	}
	return temporary(x, dir, OpenTemporary)
}

// OpenTempFile creates a temporary file in the same folders.
func (x *Index) OpenTempFile(dir string) (*cachefile.TempFile, error) {
	return temporary(x, dir, cachefile.OpenTempFile)
}

func temporary[T any](x *Index, dir string, open func(string, localfs.IOContext) (*T, error)) (*T, error) {
	temp := os.TempDir()
	if dir == "" {
		dir = temp
	}
	made, err := open(dir, x.cache.io(dir))
	if err == nil || errors.Is(err, localfs.ErrStopped) || dir == temp {
		return made, err
	}
	made, other := open(temp, x.cache.io(temp))
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return made, nil
}
