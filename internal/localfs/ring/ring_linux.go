package ring

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of linux/io_uring.h.
const (
	setupSubmitAll = 1 << 7 // a rejected read does not stop those behind it
	setupCoop      = 1 << 8 // no interrupts on completion: the ring is polled while waiting
	featSingleMmap = 1 << 0
	featNoDrop     = 1 << 1
	offsetRings    = 0
	offsetEntries  = 0x10000000
	opRead         = 22
	enterGetEvents = 1 << 0
)

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries uint32
	flags                uint32
	sqThreadCPU          uint32
	sqThreadIdle         uint32
	features             uint32
	wqFD                 uint32
	_                    [3]uint32
	sq                   struct{ head, tail, mask, entries, flags, dropped, array, _, _, _ uint32 }
	cq                   struct{ head, tail, mask, entries, overflow, cqes, flags, _, _, _ uint32 }
}

// submission is struct io_uring_sqe.
type submission struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off, addr     uint64
	len, rwFlags  uint32
	userData      uint64
	_             [3]uint64
}

// completion is struct io_uring_cqe.
type completion struct {
	userData uint64
	res      int32
	flags    uint32
}

// Ring is a pair of queues shared with the kernel. It belongs to one goroutine at a time.
type Ring struct {
	fd      int
	rings   []byte // both queues
	entries []byte // entries of the submission queue

	submissions    []submission
	array          []uint32
	sqTail         *uint32
	sqMask, cqMask uint32
	cqHead, cqTail *uint32
	completions    []completion
}

// New makes a ring for up to n simultaneous reads, rounded up to a power of two.
func New(n int) (*Ring, error) {
	p := params{flags: setupSubmitAll | setupCoop}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("%w: %w", ErrMissing, errno)
	}
	r := &Ring{fd: int(fd)}
	if p.features&featSingleMmap == 0 || p.features&featNoDrop == 0 {
		return nil, errors.Join(fmt.Errorf("%w: it lacks features %#x", ErrMissing, p.features), r.Close())
	}
	if err := r.share(&p); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: map its queues: %w", ErrMissing, err), r.Close())
	}
	return r, nil
}

// share maps the queues.
func (r *Ring) share(p *params) (err error) {
	size := max(
		uintptr(p.sq.array)+uintptr(p.sqEntries)*unsafe.Sizeof(uint32(0)),
		uintptr(p.cq.cqes)+uintptr(p.cqEntries)*unsafe.Sizeof(completion{}),
	)
	const access, shared = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.rings, err = unix.Mmap(r.fd, offsetRings, int(size), access, shared); err != nil {
		return err
	}
	size = uintptr(p.sqEntries) * unsafe.Sizeof(submission{})
	if r.entries, err = unix.Mmap(r.fd, offsetEntries, int(size), access, shared); err != nil {
		return err
	}
	at := func(off uint32) unsafe.Pointer { return unsafe.Pointer(&r.rings[off]) }
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.array = unsafe.Slice((*uint32)(at(p.sq.array)), p.sqEntries)
	r.completions = unsafe.Slice((*completion)(at(p.cq.cqes)), p.cqEntries)
	r.sqTail, r.sqMask = (*uint32)(at(p.sq.tail)), *(*uint32)(at(p.sq.mask))
	r.cqHead, r.cqTail, r.cqMask = (*uint32)(at(p.cq.head)), (*uint32)(at(p.cq.tail)), *(*uint32)(at(p.cq.mask))
	return nil
}

// Close frees the ring. No Read may be running.
func (r *Ring) Close() error {
	var errs [3]error
	if r.entries != nil {
		errs[0] = unix.Munmap(r.entries)
	}
	if r.rings != nil {
		errs[1] = unix.Munmap(r.rings)
	}
	errs[2] = unix.Close(r.fd)
	*r = Ring{fd: -1}
	return errors.Join(errs[:]...)
}

// Read makes all reads into disjoint parts of buf, and returns after the last one. It cannot return earlier, since the
// kernel writes into buf. The results are in reads.
func (r *Ring) Read(buf []byte, reads []Read) {
	if len(buf) == 0 {
		return
	}
	var pin runtime.Pinner
	pin.Pin(&buf[0])
	defer pin.Unpin()
	// The kernel completes reads on the thread that submitted them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for len(reads) > 0 {
		n := min(len(reads), len(r.submissions))
		r.round(buf, reads[:n])
		reads = reads[n:]
	}
}

// round makes as many reads as fit the ring.
func (r *Ring) round(buf []byte, reads []Read) {
	r.submit(buf, reads)
	submit, left := len(reads), len(reads)
	for left > 0 {
		taken, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), uintptr(left),
			enterGetEvents, 0, 0)
		if errno == 0 {
			submit -= int(taken)
		}
		left -= r.reap(reads)
		if errno != 0 && errno != unix.EINTR && submit > 0 {
			left -= r.takeBack(submit)
			submit = 0
		}
	}
}

// submit queues the reads. The kernel starts them in the next io_uring_enter.
func (r *Ring) submit(buf []byte, reads []Read) {
	tail := atomic.LoadUint32(r.sqTail)
	for i := range reads {
		rd := &reads[i]
		slot := (tail + uint32(i)) & r.sqMask
		room := buf[rd.From : rd.From+rd.Len : rd.From+rd.Len]
		r.submissions[slot] = submission{
			opcode: opRead, fd: int32(rd.FD), rwFlags: rd.Flags, userData: uint64(i),
			addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(room)))), len: uint32(rd.Len),
		}
		r.array[slot] = slot
		rd.N, rd.Err = 0, ErrUnread
	}
	atomic.StoreUint32(r.sqTail, tail+uint32(len(reads)))
}

// reap takes the results of finished reads, and returns their number.
func (r *Ring) reap(reads []Read) int {
	head, tail := atomic.LoadUint32(r.cqHead), atomic.LoadUint32(r.cqTail)
	for at := head; at != tail; at++ {
		c := r.completions[at&r.cqMask]
		rd := &reads[c.userData]
		rd.N, rd.Err = int(c.res), nil
		if c.res < 0 {
			rd.N, rd.Err = 0, unix.Errno(-c.res)
		}
	}
	atomic.StoreUint32(r.cqHead, tail)
	return int(tail - head)
}

// takeBack removes the last n reads from the queue, which the kernel has not seen.
func (r *Ring) takeBack(n int) int {
	atomic.StoreUint32(r.sqTail, atomic.LoadUint32(r.sqTail)-uint32(n))
	return n
}
