package localfs

import (
	"fmt"
	"io"
	"math"

	"github.com/tidemark-backup/tidemark/internal/localfs/ring"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// batchFiles is the maximum number of files read at once. Twice as many made no measurable difference.
const batchFiles = 64

// limitedFiles is the maximum number of files read at once while the gate limits I/O. Their bytes, and requestBytes for
// each file beyond the first, are at most the largest operation: one operation is never split by the gate.
const (
	limitedFiles = 8
	requestBytes = 10 << 10 // read in the time of one request: 20 µs, at 2 µs per KiB, by the estimate of pkg/iopolicy
)

// Batch reads small files of a directory together by io_uring: the device gets all requests at once and can merge
// neighbours. Without io_uring it reads one file after the other, with the same result. It belongs to one goroutine at
// a time.
type Batch struct {
	ring      *ring.Ring // nil: one file after the other
	reads     []ring.Read
	spare     []*File
	facts     iopolicy.Series
	positions iopolicy.Series
}

// NewBatch makes a Batch. If together is false, it reads one file after the other.
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

// MaxFiles returns how many open files one ReadWhole can use; 1 without io_uring.
func (b *Batch) MaxFiles() int {
	if b.ring == nil {
		return 1
	}
	return batchFiles
}

// Close releases the resources of the Batch. Open files stay open.
func (b *Batch) Close() error {
	if b.ring == nil {
		return nil
	}
	r := b.ring
	b.ring = nil
	if err := r.Close(); err != nil {
		return fmt.Errorf("close ring: %w", err)
	}
	return nil
}

// Open is Dir.OpenFile for a file that Done closes. known may be zero.
func (b *Batch) Open(d *Dir, name string, known Known) (*File, error) {
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

// Done closes a file of Open, whose memory is reused.
func (b *Batch) Done(f *File) {
	_ = f.Close()
	b.spare = append(b.spare, f)
}

// BatchFile is a file to read with Batch.ReadWhole.
type BatchFile struct {
	File  *File
	Index int    // the caller's; SortByPosition moves it along
	Size  uint64 // expected
	At    int    // offset of its Size+1 bytes in the buffer
	N     int    // result of File.ReadWhole
	Err   error

	Facts    Facts // result of File.Facts, after Batch.Facts
	FactsErr error

	position uint64 // on the device, after SortByPosition; 0: unknown
}

// ReadWhole reads files of one device into disjoint parts of buf. As many files as the gate admits form one operation.
func (b *Batch) ReadWhole(room []byte, files []BatchFile) {
	for len(files) > 0 {
		n := b.readTogether(room, files)
		if n == 0 {
			w := &files[0]
			w.N, w.Err = w.File.ReadWhole(w.buffer(room), w.Size)
			n = 1
		}
		files = files[n:]
	}
}

// buffer returns the part of all that belongs to w.
func (w *BatchFile) buffer(all []byte) []byte { return all[w.At : w.At+int(w.Size)+1] }

// readTogether reads the first files as one operation, and returns how many; 0: they must be read singly.
func (b *Batch) readTogether(room []byte, files []BatchFile) int {
	n, bytes, most, largest := 0, 0, batchFiles, math.MaxInt
	if bound := files[0].File.MaxIO(); bound > 0 {
		most, largest = limitedFiles, bound
	}
	for n < len(files) && n < most && b.ring != nil && files[n].File.canWait() {
		size := int(files[n].Size) + 1
		if n > 0 && bytes+size+n*requestBytes > largest {
			break
		}
		bytes += size
		n++
	}
	if n < 2 {
		return 0
	}
	files = files[:n]
	grant, err := files[0].File.ioctx.beginMany(iopolicy.Read, bytes, n)
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
		files[i].finish(&b.reads[i], room)
	}
	return len(files)
}

// prepare fills b.reads for as many files as the bound allows, and returns these files. A single file that exceeds the
// bound is read up to it.
func (b *Batch) prepare(files []BatchFile, bound int) []BatchFile {
	b.reads = b.reads[:0]
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
		flags := w.File.uncached(n > int(w.Size))
		r := ring.Read{FD: w.File.fd, From: w.At, Len: n, Flags: flags}
		if flags == 0 {
			w.File.NoteCache()
		} else {
			w.File.ProbeCache()
		}
		b.reads = append(b.reads, r)
	}
	return files
}

// finish turns the result of one read into that of File.ReadWhole. Failed reads are repeated by File.ReadWhole, which
// returns all errors.
func (w *BatchFile) finish(r *ring.Read, room []byte) {
	if r.Err != nil {
		w.File.noteRefused(r.Err)
		w.N, w.Err = w.File.ReadWhole(w.buffer(room), w.Size)
		return
	}
	w.N, w.Err = w.File.readRest(w.buffer(room), r.N)
}

// ReadWhole reads a file of size bytes and leaves the page cache as it was. p has size+1 bytes, so a result larger than
// size shows that the file has grown. It needs one system call if the file has the expected size and the gate does not
// limit it.
func (f *File) ReadWhole(p []byte, size uint64) (int, error) {
	p = p[:size+1]
	grant, err := f.ioctx.begin(iopolicy.Read, len(p))
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

// readStart reads p from the beginning; whole is set if that is the entire file.
func (f *File) readStart(p []byte, whole bool) (int, error) {
	if flags := f.uncached(whole); flags != 0 {
		f.ProbeCache()
		if n, err, ok := f.readUncached(p, flags); ok {
			return n, err
		}
	}
	f.NoteCache()
	return pread(f.fd, p, 0)
}

// readRest reads what is missing after the first n bytes of p.
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

// Facts calls File.Facts for all files that ReadWhole has read. Several calls form one operation of the gate as long as
// they are answered from memory.
func (b *Batch) Facts(files []BatchFile) {
	b.facts.Most = MaxStatBatch
	for len(files) > 0 {
		ioctx := &files[0].File.ioctx
		grant, err := ioctx.begin(iopolicy.Metadata, 0)
		if err != nil {
			files[0].FactsErr = err
			files = files[1:]
			continue
		}
		n := b.facts.Calls(grant, len(files))
		for i := range files[:n] {
			if w := &files[i]; w.Err == nil {
				w.Facts, w.FactsErr = w.File.facts()
			}
		}
		b.facts.End(grant, n)
		files = files[n:]
	}
}
