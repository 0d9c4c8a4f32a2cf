package local

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Packs leave 1/reserveShare of the disk free, at most mostReserve: enough for the small files that a prune writes.
const (
	reserveShare = 32
	mostReserve  = 64 << 20
)

// keepsReserve reports whether a file must leave the reserve free. Only disks of this machine have one: the free space
// that a server reports may be wrong, and the request takes a round trip.
func (s *Store) keepsReserve(ctx context.Context, name store.Name) bool {
	return name.Kind == store.Pack && s.EndsWithProcess() && !store.MayUseReserve(ctx)
}

// leavesReserve returns ENOSPC if a file of size bytes would use the last space of the disk. It is part of the
// operation that creates the file.
func (s *Store) leavesReserve(reserve bool, size int) error {
	if !reserve {
		return nil
	}
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(s.root, &st) }); err != nil {
		return &fs.PathError{Op: "statfs", Path: s.root, Err: err}
	}
	block := uint64(st.Bsize)
	free, total := st.Bavail*block, st.Blocks*block
	if os.Geteuid() == 0 {
		free = st.Bfree * block
	}
	kept := min(total/reserveShare, mostReserve)
	if total == 0 || free >= uint64(size)+kept {
		return nil
	}
	return fmt.Errorf("the last %d KiB are kept free for 'tidemark prune': %w", kept>>10, unix.ENOSPC)
}
