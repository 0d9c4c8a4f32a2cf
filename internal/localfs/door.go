package localfs

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Door opens directories by their paths, and says how what is opened through it comes to its device. All that is opened
// below inherits both; a mount on the way is told by Dir.Through. Every call that can make the device work is one
// operation of the gate behind Pass, begun before the call and ended after it; what closes and what only forgets is not.
// Reads and writes are cut to what the gate allows at the moment, each piece an operation. The zero Door is for tests
// and for finding out which gate there is: it waits for nothing.
type Door struct {
	Ctx  context.Context // when it ends, nothing begins any more: ErrStopped; nil: it never does
	Pass *iopolicy.Pass  // of the device; nil: all is admitted at once
}

// Gates finds the way to the device of what is about to be opened by its path (dir is nil; the path need not exist) or
// has just been opened (dir). A nil Gates gives nil passes.
type Gates func(dir *Dir, path string) *iopolicy.Pass

// Pass is g, which may be nil.
func (g Gates) Pass(dir *Dir, path string) *iopolicy.Pass {
	if g == nil {
		return nil
	}
	return g(dir, path)
}

// Yields reports whether what comes through d may have to give way to others: then whatever is written is sent to the
// device at once. Left in memory it would be written seconds later without regard to anybody, and look like the work of
// somebody else.
func (d Door) Yields() bool {
	client := d.Pass.Client()
	return client != nil && client.Policy().Tier() > 0
}

// begin waits until an operation on up to bytes bytes may begin. The caller ends the grant, and begins no other
// operation before that.
func (d *Door) begin(kind iopolicy.Kind, bytes int) (iopolicy.Grant, error) {
	ctx := d.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	grant, err := d.Pass.Begin(ctx, iopolicy.Op{Kind: kind, Bytes: bytes, Certain: kind == iopolicy.Sync})
	if err != nil {
		return grant, fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return grant, nil
}

// once makes a call as one operation, again after EINTR.
func (d *Door) once(kind iopolicy.Kind, call func() error) error {
	grant, err := d.begin(kind, 0)
	if err != nil {
		return err
	}
	err = retry(call)
	grant.End(0)
	return err
}

// Through makes pass the way to the device of d, and of what is opened below from now on: for a directory on which
// another file system is mounted. Call it before anybody else has d.
func (d *Dir) Through(pass *iopolicy.Pass) { d.door.Pass = pass }

// Pass returns the way to the device of d; nil: all is admitted at once.
func (d *Dir) Pass() *iopolicy.Pass { return d.door.Pass }

// Bound returns how many bytes the gate lets through at once at the moment; 0: any number.
func (d *Dir) Bound() int { return d.door.Pass.Bound() }

// Tidy returns d once more, for taking away what a run that was called off would leave half done: nothing that is
// opened below it waits, neither for a gate nor until it is told to stop. The caller releases both.
func (d *Dir) Tidy() (*Dir, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("duplicate directory: %w", err)
	}
	return newDir(fd, d.host, Door{}), nil
}

// pageSize is a unit in which every system keeps files in memory, or a part of one.
const pageSize = 4096

// cut returns how many of n bytes from offset off one operation may take. Where bound allows for a page, it ends at the
// end of one: a bound of 128 KiB is 32 pages, wherever the first byte lies.
func cut(off int64, n, bound int) int {
	if bound <= 0 || n <= 0 {
		return n
	}
	if inside := int(off % pageSize); bound > inside+1 && bound >= pageSize {
		bound -= inside
	}
	return min(n, bound)
}

// stopped reports whether err says that a call was not made because it was called off.
func stopped(err error) bool { return errors.Is(err, ErrStopped) }
