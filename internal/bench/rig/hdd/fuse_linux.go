package hdd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a mounted disk.
type Disk struct {
	path    string
	channel *os.File // to the kernel
	backing *os.File
	arm     *arm
	done    chan struct{}
	err     error // after done
}

// The FUSE requests that a regular file needs. All others return ENOSYS.
const (
	opForget      = 2
	opGetattr     = 3
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opStatfs      = 17
	opRelease     = 18
	opFsync       = 20
	opFlush       = 25
	opInit        = 26
	opInterrupt   = 36
	opDestroy     = 38
	opBatchForget = 42

	headerIn  = 40
	headerOut = 16

	// largest is the maximum size of one kernel request, in bytes.
	largest = 1 << 20
	// minor is the protocol version, 7.31: its structures have the sizes defined here.
	minor = 31

	asyncRead, bigWrites, asyncDIO, maxPages = 1 << 0, 1 << 5, 1 << 15, 1 << 22
)

// Mount serves backing as a disk at path, which is a file. The model defines the size of the disk. This process must
// not open it by package os, whose poller would deadlock waiting for this process; other processes may.
func Mount(path, backing string, m Model) (*Disk, error) {
	d := &Disk{path: path, arm: newArm(m), done: make(chan struct{})}
	var err error
	if d.backing, err = os.OpenFile(backing, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := d.backing.Truncate(m.Size); err != nil {
		return nil, errors.Join(err, d.backing.Close())
	}
	// Opened without os.OpenFile, which would have the runtime poll it: a blocking read has its own thread.
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open /dev/fuse: %w", err), d.backing.Close())
	}
	d.channel = os.NewFile(uintptr(fd), "/dev/fuse")
	options := fmt.Sprintf("fd=%d,rootmode=%o,user_id=0,group_id=0,max_read=%d", fd, unix.S_IFREG, largest)
	if err := unix.Mount("hdd", path, "fuse.hdd", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: %w", path, err), d.channel.Close(), d.backing.Close())
	}
	go func() {
		defer close(d.done)
		if d.err = d.serve(); d.err != nil {
			d.err = errors.Join(d.err, d.channel.Close()) // pending requests fail
		}
	}()
	return d, nil
}

// Unmount ends the disk, which must be unused.
func (d *Disk) Unmount() error {
	if err := unix.Unmount(d.path, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", d.path, err)
	}
	<-d.done
	if d.err == nil {
		d.err = d.channel.Close()
	}
	return errors.Join(d.err, d.backing.Close())
}

// serve answers one request after the other, until the disk is unmounted.
func (d *Disk) serve() error {
	in, out := make([]byte, largest+64<<10), make([]byte, largest+headerOut)
	fd := int(d.channel.Fd())
	for {
		n, err := unix.Read(fd, in)
		switch {
		case errors.Is(err, unix.ENODEV):
			return nil // unmounted
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT): // ENOENT: the request was taken back
			continue
		case err != nil:
			return fmt.Errorf("read request: %w", err)
		case n < headerIn:
			return fmt.Errorf("a request of %d bytes", n)
		}
		op := binary.NativeEndian.Uint32(in[4:])
		if op == opForget || op == opBatchForget || op == opInterrupt {
			continue // they expect no answer
		}
		length, errno := d.answer(op, in[headerIn:n], out[headerOut:])
		binary.NativeEndian.PutUint32(out, uint32(headerOut+length))
		binary.NativeEndian.PutUint32(out[4:], uint32(-int32(errno)))
		copy(out[8:16], in[8:16]) // which request
		if _, err := unix.Write(fd, out[:headerOut+length]); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("answer request: %w", err)
		}
	}
}

// answer writes the answer to a request after its header, and returns its length.
func (d *Disk) answer(op uint32, in, out []byte) (int, unix.Errno) {
	put32 := func(at int, v uint32) { binary.NativeEndian.PutUint32(out[at:], v) }
	put64 := func(at int, v uint64) { binary.NativeEndian.PutUint64(out[at:], v) }
	clear(out[:128])
	switch op {
	case opInit:
		flags := binary.NativeEndian.Uint32(in[12:]) & (asyncRead | bigWrites | asyncDIO | maxPages)
		put32(0, 7)
		put32(4, minor)
		put32(8, 128<<10) // read-ahead
		put32(12, flags)
		binary.NativeEndian.PutUint16(out[16:], 64) // requests in the background
		binary.NativeEndian.PutUint16(out[18:], 48) // and with so many of them the kernel considers the disk busy
		put32(20, largest)
		put32(24, 1) // granularity of times
		binary.NativeEndian.PutUint16(out[28:], largest/4096)
		return 64, 0
	case opGetattr:
		put64(0, 1<<31) // seconds for which that holds
		put64(16, 1)    // the number of the file
		put64(24, uint64(d.arm.Size))
		put64(32, uint64(d.arm.Size/512))
		put32(76, unix.S_IFREG|0o600)
		put32(80, 1) // links
		put32(96, 4096)
		return 104, 0
	case opOpen:
		return 16, 0
	case opStatfs:
		put32(40, 4096) // size of a block
		put32(44, 255)  // length of a name
		return 80, 0
	case opRead, opWrite:
		return d.transfer(op, in, out)
	case opRelease, opFsync, opFlush, opDestroy: // the disk has no cache: acknowledged writes are complete
		return 0, 0
	}
	return 0, unix.ENOSYS
}

// transfer executes a read or write, and returns when a moving arm would have finished it.
func (d *Disk) transfer(op uint32, in, out []byte) (int, unix.Errno) {
	now := time.Now()
	offset, size := int64(binary.NativeEndian.Uint64(in[8:])), int(binary.NativeEndian.Uint32(in[16:]))
	if offset < 0 || size > largest || op == opWrite && len(in) < 40+size {
		return 0, unix.EINVAL
	}
	if op == opWrite && offset+int64(size) > d.arm.Size {
		return 0, unix.ENOSPC
	}
	size = int(min(int64(size), max(0, d.arm.Size-offset)))
	ends := d.arm.serve(now, offset, size)
	length, err := 0, error(nil)
	if op == opRead {
		length, err = d.backing.ReadAt(out[:size], offset)
	} else {
		_, err = d.backing.WriteAt(in[40:40+size], offset)
		binary.NativeEndian.PutUint32(out, uint32(size))
		length = 8
	}
	if err != nil {
		return 0, unix.EIO
	}
	time.Sleep(time.Until(ends))
	return length, 0
}
