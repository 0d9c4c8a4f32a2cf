package localfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// IOContext opens directories by path. What is opened below inherits the context and the gate; Dir.SetPass replaces the
// gate below a mount point. Every call that can cause I/O is one operation of the gate behind Pass; closing is not.
// Reads and writes are split into pieces that the gate admits. The zero IOContext waits for nothing; it is for tests
// and for finding the gate.
type IOContext struct {
	Ctx  context.Context // after its end every operation fails with ErrStopped; may be nil
	Pass *iopolicy.Pass  // of the device; nil: no gate
}

// Gates returns the pass for a path that is about to be opened (dir is nil; the path need not exist) or for an open
// directory. A nil Gates returns nil.
type Gates func(dir *Dir, path string) *iopolicy.Pass

// Pass returns the pass for a path or an open directory.
func (g Gates) Pass(dir *Dir, path string) *iopolicy.Pass {
	if g == nil {
		return nil
	}
	return g(dir, path)
}

// Yields reports whether operations may have to yield to other programs. Written data is then sent to the device at
// once: left in memory, it would be written later without the gate.
func (d IOContext) Yields() bool {
	client := d.Pass.Client()
	return client != nil && client.Policy().Tier() > 0
}

// begin waits until an operation on up to bytes bytes may begin. The caller must end the grant before the next
// operation.
func (d *IOContext) begin(kind iopolicy.Kind, bytes int) (iopolicy.Grant, error) {
	return d.beginMany(kind, bytes, 1)
}

// beginMany is begin for an operation with several simultaneous requests.
func (d *IOContext) beginMany(kind iopolicy.Kind, bytes, requests int) (iopolicy.Grant, error) {
	op := iopolicy.Op{Kind: kind, Bytes: bytes, Requests: requests, Certain: kind == iopolicy.Sync}
	grant, err := d.Pass.Begin(d.context(), op)
	if err != nil {
		return grant, fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return grant, nil
}

// do makes a call as one operation, and repeats it after EINTR.
func (d *IOContext) do(kind iopolicy.Kind, call func() error) error {
	grant, err := d.begin(kind, 0)
	if err != nil {
		return err
	}
	err = retry(call)
	grant.End(0)
	return err
}

// Do makes a call as one operation. The call gets the number of bytes that it may move at once, 0: any, and returns how
// many it moved. Do, Names, Push, ReadFull and WriteAll are for the files of caches, which are no Files.
func (d IOContext) Do(op iopolicy.Op, call func(bound int) (int, error)) (n int, err error) {
	grant, err := d.Pass.Begin(d.context(), op)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStopped, err)
	}
	defer func() { grant.End(n) }() // even if the call panics
	n, err = call(grant.Max)
	return n, err
}

// Names makes a call that reads or changes directory entries as one operation.
func (d IOContext) Names(call func() error) error {
	_, err := d.Do(iopolicy.Op{Kind: iopolicy.Metadata}, func(int) (int, error) { return 0, call() })
	return err
}

// Push writes n bytes of f from off on to the device under a yielding policy, in an operation that has begun: see
// Yields. n is 0 for the whole file.
func (d IOContext) Push(f *os.File, off, n int64, wait bool) error {
	if !d.Yields() {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var pushed error
	err = raw.Control(func(fd uintptr) { pushed = pages.Push(int(fd), off, n, wait) })
	return errors.Join(err, pushed)
}

// ReadFull fills p from the position of f.
func (d IOContext) ReadFull(f *os.File, p []byte) error {
	return d.pieces(iopolicy.Read, p, func(_ int64, part []byte, _ bool) (int, error) { return io.ReadFull(f, part) })
}

// WriteAll writes p to the beginning of f, which is empty. Under a yielding policy it is flushed at once.
func (d IOContext) WriteAll(f *os.File, p []byte) error {
	return d.pieces(iopolicy.Write, p, func(at int64, part []byte, bounded bool) (int, error) {
		n, err := f.Write(part)
		if err == nil {
			err = d.Push(f, at, int64(n), bounded)
		}
		return n, err
	})
}

// pieces transfers p in pieces that the gate admits.
func (d IOContext) pieces(kind iopolicy.Kind, p []byte, call func(at int64, part []byte, bounded bool) (int, error),
) error {
	for done := 0; done < len(p); {
		n, err := d.Do(iopolicy.Op{Kind: kind, Bytes: len(p) - done}, func(bound int) (int, error) {
			part := p[done:]
			if bound > 0 {
				part = part[:min(bound, len(part))]
			}
			return call(int64(done), part, bound > 0)
		})
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

func (d IOContext) context() context.Context {
	if d.Ctx == nil {
		return context.Background()
	}
	return d.Ctx
}

// SetPass replaces the pass of d and of everything opened below, for a directory that is a mount point. It must be
// called before d is shared.
func (d *Dir) SetPass(pass *iopolicy.Pass) { d.ioctx.Pass = pass }

// Pass returns the pass of the device; nil: no gate.
func (d *Dir) Pass() *iopolicy.Pass { return d.ioctx.Pass }

// Context returns the context of all operations.
func (d *Dir) Context() context.Context { return d.ioctx.context() }

// MaxIO returns how many bytes the gate admits at once at present; 0: no limit.
func (d *Dir) MaxIO() int { return d.ioctx.Pass.Bound() }

// Ungated returns another reference to the directory that ignores the gate and the context, for cleaning up after a
// cancelled run. The caller releases both.
func (d *Dir) Ungated() (*Dir, error) {
	fd, err := duplicate(d.fd)
	if err != nil {
		return nil, err
	}
	return newDir(fd, d.host, IOContext{}), nil
}

// duplicate returns another descriptor of what fd has open.
func duplicate(fd int) (int, error) {
	again, err := retryCount(func() (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return -1, fmt.Errorf("duplicate descriptor: %w", err)
	}
	return again, nil
}

// pageSize is a page, or a part of one, on all systems.
const pageSize = 4096

// cut returns how many of n bytes at offset off one operation may take. The end is aligned to a page where the bound
// permits that.
func cut(off int64, n, bound int) int {
	if bound <= 0 || n <= 0 {
		return n
	}
	if inside := int(off % pageSize); bound > inside+1 && bound >= pageSize {
		bound -= inside
	}
	return min(n, bound)
}

func isStopped(err error) bool { return errors.Is(err, ErrStopped) }
