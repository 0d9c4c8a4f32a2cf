package localfs

import (
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// content is the data of an open file, read and written through its I/O gate.
type content struct {
	fd      int
	ioctx   IOContext
	bounded atomic.Bool // readahead is off
}

// readFull fills p; io.EOF at the end of the file.
func (c *content) readFull(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := c.readSome(p[done:], off+int64(done))
		if err != nil {
			return done, fmt.Errorf("read at %d: %w", off+int64(done), err)
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

// readSome makes one call, within the limit of the gate.
func (c *content) readSome(p []byte, off int64) (int, error) {
	grant, err := c.ioctx.begin(iopolicy.Read, len(p))
	if err != nil {
		return 0, err
	}
	c.bound(grant.Max > 0)
	n, err := pread(c.fd, p[:cut(off, len(p), grant.Max)], off)
	grant.End(n)
	return n, err
}

func pread(fd int, p []byte, off int64) (int, error) {
	n, err := retryCount(func() (int, error) { return unix.Pread(fd, p, off) })
	return max(n, 0), err
}

// bound turns readahead off while the gate limits reads. Readahead would fetch megabytes for a read of 128 KiB.
func (c *content) bound(on bool) {
	if c.bounded.Load() != on && c.bounded.Swap(on) != on {
		pages.ReadAhead(c.fd, !on)
	}
}

// writeFull writes all of p, or returns an error.
func (c *content) writeFull(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := c.writeSome(p[done:], off+int64(done))
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return done, fmt.Errorf("write at %d: %w", off+int64(done), err)
		}
		done += n
	}
	return done, nil
}

// writeSome makes one call, within the limit of the gate. Under a limit, the data is sent to the device before the next
// operation; left in memory, it would be written later all at once.
func (c *content) writeSome(p []byte, off int64) (int, error) {
	grant, err := c.ioctx.begin(iopolicy.Write, len(p))
	if err != nil {
		return 0, err
	}
	p = p[:cut(off, len(p), grant.Max)]
	n, err := pwrite(c.fd, p, off)
	if err == nil {
		err = c.push(off, n, grant.Max > 0)
	}
	grant.End(n)
	return n, err
}

// push sends what was written to the device, if it must not stay in memory.
func (c *content) push(off int64, n int, bounded bool) error {
	if n == 0 || !bounded && !c.ioctx.Yields() {
		return nil
	}
	return pages.Push(c.fd, off, int64(n), bounded)
}

// Stat returns the present status of the file, even if its name is gone.
func (c *content) Stat() (st Stat, err error) {
	if err = c.ioctx.do(iopolicy.Metadata, func() error { return fstat(c.fd, &st) }); err != nil {
		return Stat{}, fmt.Errorf("stat open file: %w", err)
	}
	return st, nil
}

// Close closes the file, and does not wait for the gate. After writing, an error means that the file system may have
// lost data.
func (c *content) Close() error {
	fd := c.fd
	c.fd = -1
	err := error(unix.EBADF)
	if fd >= 0 {
		err = unix.Close(fd)
	}
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("close file: %w", err)
	}
	return nil
}
