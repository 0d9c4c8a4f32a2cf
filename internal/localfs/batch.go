package localfs

import (
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/localfs/disk"
	"github.com/tidemark-backup/tidemark/internal/localfs/ring"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// batchFiles is how many files a Batch reads at once, at most. Twice as many make no difference that could be measured, but
// need twice the descriptors.
const batchFiles = 64

// Batch reads small files of a directory together: the requests of all of them are with the device before the first is
// waited for, and those that are neighbours become one. Where that cannot be had it reads them one after the other, and
// what comes of it is the same. It belongs to one goroutine at a time.
type Batch struct {
	ring   *ring.Ring // nil: one after the other
	reads  []ring.Read
	spare  []*File
	cached bool        // nothing is read past the page cache that is not in it
	memory disk.Memory // for direct reads
	facts  iopolicy.Series
	places iopolicy.Series
}

// NewBatch makes a Batch; together=false makes one that reads one file after the other on every system.
func NewBatch(together bool) *Batch {
	b := &Batch{}
	if !together {
		return b
	}
	if r, err := ring.New(batchFiles); err == nil {
		b.ring = r
	}
	return b
}

// KeepToCache makes b read nothing straight from the disk, as it does with small files that are not in memory otherwise.
func (b *Batch) KeepToCache() { b.cached = true }

// Most returns how many files it is of use to have open for one ReadWhole; 1 where they are read one after the other.
func (b *Batch) Most() int {
	if b.ring == nil {
		return 1
	}
	return batchFiles
}

// Close gives back what the Batch holds, not the files that were opened by it.
func (b *Batch) Close() error {
	if b.ring == nil {
		return nil
	}
	r := b.ring
	b.ring = nil
	if err := errors.Join(r.Close(), b.memory.Close()); err != nil {
		return fmt.Errorf("close ring: %w", err)
	}
	return nil
}

// Open is Dir.OpenFile for a file that Done takes back. The zero value of known is for one of which nothing is known. The
// file may be one that is only presumed to be the known one, and then is nothing but read by ReadWhole, asked for its
// Facts, confirmed and closed.
func (b *Batch) Open(d *Dir, name string, known Known) (*File, error) {
	known.Times = known.Times && b.ring != nil
	var f *File
	if n := len(b.spare); n > 0 {
		f, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		f = &File{}
	}
	if err := d.openInto(f, name, known); err != nil {
		b.spare = append(b.spare, f)
		return nil, err
	}
	return f, nil
}

// Done closes a file of Open, which must not be used any more.
func (b *Batch) Done(f *File) {
	_ = f.Close()
	b.spare = append(b.spare, f)
}

// Whole is one of the files that a Batch reads as File.ReadWhole does.
type Whole struct {
	File  *File
	Index int    // the caller's; Arrange moves it with the rest
	Size  uint64 // expected
	At    int    // where in the memory its Size+1 bytes are
	N     int    // what File.ReadWhole returns
	Err   error

	Facts    Facts // what File.Facts returns, after Batch.Facts
	FactsErr error

	place uint64 // of the content on the device, after Batch.Arrange; 0: not known
}

// ReadWhole reads files, which lie on one device, into parts of room that do not overlap. As many of them as the gate
// lets through at once are one operation of it.
func (b *Batch) ReadWhole(room []byte, files []Whole) {
	for len(files) > 0 {
		n := b.together(room, files)
		if n == 0 {
			w := &files[0]
			w.N, w.Err = w.File.ReadWhole(w.room(room), w.Size)
			n = 1
		}
		files = files[n:]
	}
}

// room returns the memory of w.
func (w *Whole) room(all []byte) []byte { return all[w.At : w.At+int(w.Size)+1] }

// together reads the first of some files as one operation, and returns how many; 0: they are for somebody else to read.
func (b *Batch) together(room []byte, files []Whole) int {
	n, bytes := 0, 0
	for n < len(files) && n < batchFiles && b.ring != nil && files[n].File.async() {
		bytes += int(files[n].Size) + 1
		n++
	}
	if n < 2 {
		return 0
	}
	files = files[:n]
	grant, err := files[0].File.door.begin(iopolicy.Read, bytes)
	if err != nil {
		for i := range files {
			files[i].N, files[i].Err = 0, fmt.Errorf("read: %w", err)
		}
		return n
	}
	files = b.prepare(files, grant.Max)
	b.ring.Read(room, b.reads)
	bytes = 0
	for i := range b.reads {
		bytes += b.reads[i].N
	}
	grant.EndBatch(bytes, len(files))
	for i := range files {
		files[i].take(&b.reads[i], room)
	}
	return len(files)
}

// prepare sets b.reads up for as many of the files as a bound allows, and returns those. One that is larger by itself is
// read as far as that.
func (b *Batch) prepare(files []Whole, bound int) []Whole {
	b.reads = b.reads[:0]
	b.memory.Reset()
	bytes := 0
	for i := range files {
		w := &files[i]
		n := int(w.Size) + 1
		if bytes += n; bound > 0 && bytes > bound {
			if i > 0 {
				return files[:i]
			}
			n = cut(0, n, bound)
		}
		w.File.bound(bound > 0)
		flags := w.File.guarded(n > int(w.Size))
		r := ring.Read{FD: w.File.fd, From: w.At, Len: n, Flags: flags}
		if bound == 0 {
			b.direct(w, &r)
		}
		if flags == 0 && r.Into == nil {
			w.File.NoteCache()
		}
		b.reads = append(b.reads, r)
	}
	return files
}

// direct makes r, which reads w as a whole, a direct read, if the file is small, nothing of it is in memory, and it can be
// one. What is in memory, if only a page, is read from there: it costs less, and may be newer than what is on the disk.
func (b *Batch) direct(w *Whole, r *ring.Read) {
	f := w.File
	if b.cached || r.Len > disk.MostRead || w.Size == 0 || !f.host.direct.Read(f.opened.Dev, f.fd, f.Confirm) {
		return
	}
	if n, ok := f.cached(0, int64(w.Size)); !ok || n > 0 {
		return
	}
	if into := b.memory.Take(r.Len); into != nil && f.setDirect(true) {
		r.Into, r.Len = into, len(into)
	}
}

// take makes of one read what File.ReadWhole makes of its first. What went wrong is tried again by itself, so that there
// is one place where errors come from.
func (w *Whole) take(r *ring.Read, room []byte) {
	if r.Err != nil {
		if w.Err = w.File.Confirm(); w.Err != nil { // the error says nothing of the file system
			w.N = 0
			return
		}
		w.File.refused(r.Err)
		if r.Into != nil {
			w.File.host.direct.Refused(w.File.opened.Dev, r.Err)
		}
		w.N, w.Err = w.File.ReadWhole(w.room(room), w.Size)
		return
	}
	if r.Into != nil {
		r.N = copy(w.room(room), r.Into[:r.N])
	}
	w.N, w.Err = w.File.readRest(w.room(room), r.N)
}

// ReadWhole reads a file of size bytes from its beginning, and leaves the page cache as it was. p is one byte longer than
// that, so that more is noticed. One system call is enough for a file of the expected size, unless the gate allows less:
// only a shorter answer is followed by another one. It returns how many bytes there were; more than size says that the
// file has grown.
func (f *File) ReadWhole(p []byte, size uint64) (int, error) {
	if err := f.Confirm(); err != nil {
		return 0, err
	}
	p = p[:size+1]
	grant, err := f.door.begin(iopolicy.Read, len(p))
	if err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	f.bound(grant.Max > 0)
	n, err := f.readStart(p[:cut(0, len(p), grant.Max)], grant.Max == 0 || len(p) <= grant.Max)
	grant.End(max(n, 0))
	if err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	return f.readRest(p, n)
}

// readStart reads p, which is all there should be of the file if whole.
func (f *File) readStart(p []byte, whole bool) (int, error) {
	f.setDirect(false) // it was read so before
	if flags := f.past(whole); flags != 0 {
		if n, err, ok := f.readPast(p, flags); ok {
			return n, err
		}
	}
	f.NoteCache()
	return pread(f.fd, p, 0)
}

// readRest reads what the first n bytes of p lack.
func (f *File) readRest(p []byte, n int) (int, error) {
	if n < len(p)-1 {
		more, err := f.readFull(p[n:], int64(n))
		n += more
		if err != nil && err != io.EOF {
			return n, err
		}
	}
	if f.cache.noted.Load() {
		f.DropCache(0, int64(n))
	}
	return n, nil
}
