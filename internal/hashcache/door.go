package hashcache

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// Door says how a cache comes to the device that its files lie on. Each transaction that writes is one operation of the
// gate, begun before it takes any lock of the file: a tree of pages cannot be cut. It ends with the bytes of the pages it
// has written. What is read is read by faults of a mapping, which no gate can stand in front of.
//
// What needs no durability, a temporary cache and the files of a DirBatch, is sent to the device as it is written all the
// same, if it has to give way to others: the system would do so seconds later, when it looks like somebody else's.
type Door struct {
	Ctx  context.Context // when it ends, nothing is written any more, until Close; nil: it never does
	Pass *iopolicy.Pass  // of the device; nil: all is admitted at once
}

// do makes one operation of call, which returns how many bytes it moved.
func (d Door) do(op iopolicy.Op, call func(bound int) (int, error)) (int, error) {
	ctx := d.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	grant, err := d.Pass.Begin(ctx, op)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStopped, err)
	}
	n, err := call(grant.Max)
	grant.End(n)
	return n, err
}

// look is an operation on names.
func (d Door) look(call func() error) error {
	_, err := d.do(iopolicy.Op{Kind: iopolicy.Metadata}, func(int) (int, error) { return 0, call() })
	return err
}

// push sends what was written to f, or a part of it, to the device; n is 0 for all. What need not give way to others is
// left to the system, and may never get there.
func (d Door) push(f *os.File, off, n int64, wait bool) error {
	client := d.Pass.Client()
	if client == nil || client.Policy().Tier() == 0 {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var pushErr error
	err = raw.Control(func(fd uintptr) { pushErr = pages.Push(int(fd), off, n, wait) })
	return errors.Join(err, pushErr)
}

// appender writes to a file from an offset on, as the gate allows.
type appender struct {
	door Door
	f    *os.File
	off  int64
}

// Write writes all of p.
func (a *appender) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := a.door.do(iopolicy.Op{Kind: iopolicy.Write, Bytes: len(p) - done}, func(bound int) (int, error) {
			part := p[done:]
			if bound > 0 {
				part = part[:min(bound, len(part))]
			}
			n, err := a.f.WriteAt(part, a.off)
			if err == nil {
				err = a.door.push(a.f, a.off, int64(n), bound > 0)
			}
			return n, err
		})
		done, a.off = done+n, a.off+int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
