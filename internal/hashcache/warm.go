package hashcache

import (
	"errors"
	"io"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	// warmEnough is the size in bytes of a file that Warm reads: where the blobs of a million small files lie.
	warmEnough = 64 << 20
	warmAtOnce = 1 << 20
)

// Warm reads the file from front to back, so that those who are about to look most of its blobs up find them in memory.
// What is not there is fetched by faults of the mapping, page by page and at random, and each fault stops a processor of
// the Go runtime, which takes it for computing. A file of more than 64 MiB is left as it is. What cannot be read will be
// told by whoever needs it.
func (c *Cache) Warm() {
	st, err := c.file.Stat()
	if err != nil || st.Size() > warmEnough {
		return
	}
	buf := make([]byte, min(warmAtOnce, st.Size()))
	for at := int64(0); at < st.Size(); {
		n, err := c.door.do(iopolicy.Op{Kind: iopolicy.Read, Bytes: len(buf)}, func(bound int) (int, error) {
			part := buf
			if bound > 0 {
				part = part[:min(bound, len(part))]
			}
			n, err := c.file.ReadAt(part, at)
			if n > 0 && errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		})
		if err != nil || n == 0 {
			return
		}
		at += int64(n)
	}
}
