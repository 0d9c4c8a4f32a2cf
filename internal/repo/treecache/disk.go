package treecache

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxReserve is the most that is left free of a disk.
const maxReserve = 1 << 30

// space is the state of a disk, in bytes.
type space struct {
	free    int64 // for users without privileges
	reserve int64 // of that, what stays reserved
}

// missing returns how much must be freed before size bytes may be written.
func (s space) missing(size int64) int64 { return max(0, s.reserve+size-s.free) }

// statDisk queries the file system of dir, which may not exist yet.
func statDisk(dir string) (space, error) {
	var fs unix.Statfs_t
	for {
		err := unix.Statfs(dir, &fs)
		parent := filepath.Dir(dir)
		switch {
		case err == nil:
			unit := blockUnit(&fs)
			total := int64(fs.Blocks) * unit
			return space{free: int64(fs.Bavail) * unit, reserve: min(maxReserve, total/20)}, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, os.ErrNotExist) && parent != dir:
			dir = parent
		default:
			return space{}, err
		}
	}
}
