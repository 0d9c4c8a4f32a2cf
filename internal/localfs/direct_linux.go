package localfs

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs/ring"
)

// Small files of which nothing is in memory are read straight into memory of ours (O_DIRECT), on file systems of which it
// is known that this is what it says. The kernel needs no pages then, which it would have to find, fill, copy from, and
// throw away: a quarter of its work on such a read, and nothing of others has to leave for them. What is in memory, if only
// a page, is read from there: it costs less, and may be newer than what is on the disk.

const (
	// directUnit is what such reads are aligned to and are multiples of: at least what any disk asks for, and no less than
	// a block, since otherwise neighbouring files were not neighbours on the disk.
	directUnit = 4096
	// directFile is the largest file read so, and directRoom the memory of a Batch for it: that of as many files of one
	// block as are read at once.
	directFile = 16 << 10
	directRoom = batchFiles * directUnit
)

// What statfs says of the file systems meant here.
const (
	magicExt4 = 0xef53
	magicXFS  = 0x58465342
)

// aligned is memory for direct reads, outside the heap, where no file's place depends on the others.
type aligned struct {
	room []byte
	used int
}

// close gives the memory back.
func (a *aligned) close() error {
	if a.room == nil {
		return nil
	}
	room := a.room
	a.room = nil
	return unix.Munmap(room)
}

// take returns a piece of the memory for n bytes, nil if there is none left.
func (a *aligned) take(n int) []byte {
	n = (n + directUnit - 1) / directUnit * directUnit
	if a.room == nil {
		room, err := unix.Mmap(-1, 0, directRoom, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil
		}
		a.room = room
	}
	if a.used+n > len(a.room) {
		return nil
	}
	piece := a.room[a.used : a.used+n : a.used+n]
	a.used += n
	return piece
}

// direct makes r, which reads w as a whole, a direct read, if it can and should be one.
func (b *Batch) direct(w *Whole, r *ring.Read) {
	f := w.File
	if b.cached || r.Len > directFile || w.Size == 0 || !f.mayDirect() {
		return
	}
	if n, ok := f.cached(0, int64(w.Size)); !ok || n > 0 {
		return
	}
	into := b.aligned.take(r.Len)
	if into == nil || !f.setDirect(true) {
		return
	}
	r.Into, r.Len = into, len(into)
}

// arrive takes over what a direct read brought.
func (w *Whole) arrive(r *ring.Read, room []byte) {
	if r.Into != nil {
		r.N = copy(w.room(room), r.Into[:r.N])
	}
}

// refusedDirect remembers that a file system does not read directly, if that is what r has come to. There is none known that
// says it would and then does not.
func (w *Whole) refusedDirect(r *ring.Read) {
	if r.Into != nil && r.Err == unix.EINVAL {
		w.File.host.direct.Store(0)
		w.File.host.indirect.Store(1 + w.File.opened.Dev)
	}
}

// mayDirect reports whether the file system of f reads directly. One is asked once.
func (f *File) mayDirect() bool {
	dev := 1 + f.opened.Dev
	if f.host.direct.Load() == dev {
		return true
	}
	if f.host.indirect.Load() == dev || f.Confirm() != nil {
		return false
	}
	verdict := &f.host.indirect
	if f.tellsDirect() {
		verdict = &f.host.direct
	}
	verdict.Store(dev)
	return verdict == &f.host.direct
}

// tellsDirect asks the file system of f. Which alignment direct reads need there it says since Linux 6.1, with a zero where
// there are none.
func (f *File) tellsDirect() bool {
	var fs unix.Statfs_t
	if retry(func() error { return unix.Fstatfs(f.fd, &fs) }) != nil || fs.Type != magicExt4 && fs.Type != magicXFS {
		return false
	}
	var sx unix.Statx_t
	err := retry(func() error { return unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &sx) })
	if err != nil || sx.Mask&unix.STATX_DIOALIGN == 0 {
		return false
	}
	fits := func(align uint32) bool { return align > 0 && directUnit%align == 0 }
	return fits(sx.Dio_mem_align) && fits(sx.Dio_offset_align)
}

// setDirect makes all reads of c direct, or none; false: it cannot be done. The access time stays as it is, and what is no
// regular file is not waited for, as was said when it was opened: where the first is not for us to say, reads are not made
// direct.
func (c *content) setDirect(on bool) bool {
	if c.isDirect == on {
		return true
	}
	flags := unix.O_NONBLOCK | unix.O_NOATIME
	if on {
		flags |= unix.O_DIRECT
	}
	err := retry(func() error {
		_, err := unix.FcntlInt(uintptr(c.fd), unix.F_SETFL, flags)
		return err
	})
	if err == nil {
		c.isDirect = on
	}
	return err == nil
}
