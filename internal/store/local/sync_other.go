//go:build !linux

package local

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// syncData makes f durable. On darwin that flushes the cache of the disk too, where the file system can.
func syncData(f *os.File) error { return pages.Sync(f, false) }

// renameNew renames a file unless the name is taken.
func renameNew(fd int, temp, path string) error {
	return unix.RenameatxNp(fd, temp, fd, path, unix.RENAME_EXCL)
}
