package localfs

import (
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs/disk"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// content is the data of an open file, behind the gate of its device.
type content struct {
	fd      int
	door    Door
	bounded atomic.Bool // the kernel was told to read no more than it is asked for

	isDirect bool // whatever is read comes from the device, and is aligned; only while a Batch reads it
}

// readFull reads until p is full, the file ends (io.EOF), or an error.
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

// readSome is one call, of as much as the gate allows.
func (c *content) readSome(p []byte, off int64) (int, error) {
	grant, err := c.door.begin(iopolicy.Read, len(p))
	if err != nil {
		return 0, err
	}
	c.bound(grant.Max > 0)
	c.setDirect(false)
	n, err := pread(c.fd, p[:cut(off, len(p), grant.Max)], off)
	grant.End(n)
	return n, err
}

// pread is one call. It returns no negative number.
func pread(fd int, p []byte, off int64) (n int, err error) {
	err = retry(func() (err error) {
		n, err = unix.Pread(fd, p, off)
		return err
	})
	return max(n, 0), err
}

// bound turns the kernel's reading ahead off as long as reads are bounded, which it would defeat: asked for 128 KiB, it
// may fetch megabytes.
func (c *content) bound(on bool) {
	if c.bounded.Load() != on && c.bounded.Swap(on) != on {
		pages.ReadAhead(c.fd, !on)
	}
}

// setDirect makes all reads of c direct, or none, and reports whether they are as they should be.
func (c *content) setDirect(on bool) bool {
	if c.isDirect != on && disk.Direct(c.fd, on) == nil {
		c.isDirect = on
	}
	return c.isDirect == on
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

// writeSome is one call, of as much as the gate allows. What is bounded is on the device before the next operation begins:
// left in memory, it would be bounded now and come all at once later.
func (c *content) writeSome(p []byte, off int64) (int, error) {
	grant, err := c.door.begin(iopolicy.Write, len(p))
	if err != nil {
		return 0, err
	}
	p = p[:cut(off, len(p), grant.Max)]
	n := 0
	err = retry(func() (err error) {
		n, err = unix.Pwrite(c.fd, p, off)
		return err
	})
	n = max(n, 0)
	if err == nil && (grant.Max > 0 || c.door.Yields()) {
		err = pages.Push(c.fd, off, int64(n), grant.Max > 0)
	}
	grant.End(n)
	return n, err
}

// status is one operation on the open file itself.
func (c *content) status(st *Stat) error {
	return c.door.once(iopolicy.Metadata, func() error { return fstat(c.fd, st) })
}

// close closes the file, which waits for no gate: a descriptor is given back whatever happens.
func (c *content) close() error {
	fd := c.fd
	c.fd = -1
	if fd < 0 {
		return unix.EBADF
	}
	if err := unix.Close(fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}
