package foreign

import (
	"cmp"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// openMount opens the counters of a network mount.
func openMount(info device.Info, proc string) (counters, error) {
	name, parse := cmp.Or(proc, "/proc"), parseCIFS
	switch fs := info.FS; {
	case fs == "cifs" || strings.HasPrefix(fs, "smb"):
		name += "/fs/cifs/Stats"
	case strings.HasPrefix(fs, "nfs"):
		name, parse = name+"/self/mountstats", parseNFS
	default:
		return nil, errNotCounted
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 16<<10)
	j, err := newMountDetector(func() (traffic, error) {
		for {
			n, err := readFull(f, buf)
			if err != nil {
				return traffic{}, err
			}
			if n < len(buf) {
				return parse(buf[:n], info.Source)
			}
			buf = make([]byte, 2*len(buf))
		}
	}, func() { f.Close() })
	if err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// readFull reads a kernel file from its start: one read returns a page at most.
func readFull(f *os.File, buf []byte) (n int, err error) {
	for n < len(buf) {
		got, err := f.ReadAt(buf[n:], int64(n))
		n += got
		if errors.Is(err, io.EOF) || err == nil && got == 0 {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
