package localfs

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// TimedRead is how many bytes TimeRead reads, and what its offset must be a multiple of: the largest block of any disk.
const TimedRead = 4096

// TimeRead reads TimedRead bytes of the regular file name at off past the page cache, throws them away, and returns how
// long the device took for them, without the opening of the file and the wait at the gate of pass. 0: no device was
// asked, because the place is a hole or the file system had it in memory. Where O_DIRECT is not to be had, or in the
// last bytes of a file that do not fill a block, it is an error.
func (d *Dir) TimeRead(ctx context.Context, pass *iopolicy.Pass, name string, off int64) (time.Duration, error) {
	f, err := d.OpenFile(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	flags, err := unix.FcntlInt(uintptr(f.fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(f.fd), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	if err != nil {
		return 0, failed("read past the cache from", name, err)
	}
	room := make([]byte, 2*TimedRead)
	skip := (TimedRead - int(uintptr(unsafe.Pointer(&room[0]))%TimedRead)) % TimedRead
	room[skip] = 1 // a page that was never touched makes btrfs go through its cache
	var took time.Duration
	op := iopolicy.Op{Kind: iopolicy.Read, Bytes: TimedRead, Certain: true}
	n, err := pass.Do(ctx, op, func(int) (n int, err error) {
		n, took, err = timed(f.fd, room[skip:skip+TimedRead], off)
		return n, err
	})
	if err == nil && n < TimedRead {
		err = fmt.Errorf("only %d bytes", n)
	}
	if err != nil {
		return 0, failed("read past the cache from", name, err)
	}
	return took, nil
}

// timed reads once and tells how long that took if the kernel counted blocks from a device for this thread meanwhile.
func timed(fd int, p []byte, off int64) (n int, took time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	err = retry(func() (err error) {
		n, err = unix.Pread(fd, p, off)
		return err
	})
	took = max(time.Since(start), 1)
	if err != nil {
		return 0, 0, err
	}
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
		return n, 0, err
	}
	if after.Inblock == before.Inblock {
		took = 0
	}
	return n, took, nil
}
