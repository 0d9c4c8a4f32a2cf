package localfs

import (
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// Reading leaves the page cache as it was: pages of other programs stay, and pages that only the backup needed are
// dropped. These calls are not operations of the gate, since they cause no I/O.

// cacheSegments is the number of parts of a file that are tracked: one bit each in a word.
const cacheSegments = 64

// smallFile is the size below which pages stay cached if their previous state is unknown: evicting a file in use costs
// more than a few extra pages.
const smallFile = 1 << 20

// cacheMark records which segments of a file were not cached.
type cacheMark struct {
	noted   atomic.Bool
	segment int64         // bytes per segment
	cold    atomic.Uint64 // bit i: no page of segment i was cached
}

// NoteCache records what is cached. It must precede the first read of a file for which DropCache is called. It needs
// one system call for a small file that is cached entirely or not at all, and at most 65.
func (f *File) NoteCache() {
	size := int64(f.opened.Size)
	if size <= 0 || bypassCache(f.fd, size) {
		return
	}
	const page = 1 << 16 // a multiple of every page size in use
	segment := (size/cacheSegments + page) / page * page
	if segment < smallFile {
		segment = smallFile
	}
	all, ok := f.ProbeCache()
	if !ok {
		return
	}
	cold := ^uint64(0)
	for i := 0; all > 0 && i < cacheSegments; i++ {
		off := int64(i) * segment
		if off >= size {
			break
		}
		n := all
		if segment < size {
			n, ok = f.cached(off, segment)
		}
		if !ok || n > 0 {
			cold &^= 1 << i
		}
	}
	f.cache.segment = segment
	f.cache.cold.Store(cold)
	f.cache.noted.Store(true)
}

// ProbeCache updates Dirty and resident, and returns the number of cached pages; false where the system does not report
// it. It must precede the first read. ReadWhole, Batch.ReadWhole and NoteCache call it.
func (f *File) ProbeCache() (held uint64, known bool) {
	if f.opened.Size == 0 {
		return 0, false
	}
	held, dirty, known := f.pages(0, int64(f.opened.Size))
	f.dirty, f.resident = dirty > 0, known && whole(held, 0, int64(f.opened.Size))
	return held, known
}

// Dirty reports whether the file had pages that were not yet on disk when it was probed. A program with a mapping can
// change such a page without a new change time, which only the first write to a clean page sets. It is false where the
// system does not report it, as on tmpfs.
func (f *File) Dirty() bool { return f.dirty }

func (f *File) cached(off, n int64) (uint64, bool) {
	held, _, known := f.pages(off, n)
	return held, known
}

// CachedPages counts the cached pages of the file, including those being read; false where the system does not report
// it.
func (f *File) CachedPages() (pages uint64, known bool) { return f.cached(0, int64(f.opened.Size)) }

// DropCache drops the pages of a range, except segments that NoteCache found cached. Without NoteCache, or without
// cachestat, only ranges of large files are dropped.
func (f *File) DropCache(off, n int64) {
	if n <= 0 {
		return
	}
	if !f.cache.noted.Load() {
		if f.opened.Size > smallFile {
			f.drop(off, n)
		}
		return
	}
	segment, cold := f.cache.segment, f.cache.cold.Load()
	if cold == ^uint64(0) {
		f.drop(off, n)
		return
	}
	for at := off; at < off+n; {
		i := at / segment
		end := min((i+1)*segment, off+n)
		if i >= cacheSegments {
			return // beyond the size that NoteCache saw
		}
		if cold&(1<<i) != 0 {
			f.drop(at, end-at)
		}
		at = end
	}
}

func (f *File) drop(off, n int64) { pages.Drop(f.fd, off, n) }
