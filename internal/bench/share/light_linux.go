package share

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readLightly reads 4 KiB from the disk itself, at a random offset of a file, and pauses.
func readLightly(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	page, err := unix.Mmap(-1, 0, smallSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(page) }()
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := f.ReadAt(page, rand.Int64N(packSize/smallSize)*smallSize); err != nil {
			return err
		}
	}
}
