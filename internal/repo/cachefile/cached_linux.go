package cachefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// readCached fills p from off and reports whether cached pages sufficed. p is not empty.
func readCached(f *os.File, p []byte, off int64) bool {
	n, err := unix.Preadv2(int(f.Fd()), [][]byte{p}, off, unix.RWF_NOWAIT)
	return err == nil && n == len(p)
}
