package localfs

import "sync/atomic"

// The page cache is left as it was found: what others had in memory stays, what only we brought in goes. Nothing here is
// an operation of the gate: asking makes no I/O, and to drop pages could only where somebody has written to them since
// they were asked about.

// cacheSegments is how many parts of a file are told apart: as many as fit one word, so that the memory of it does not
// grow with the file.
const cacheSegments = 64

// smallFile is the size below which the pages of a file are left where it is not known whether they were there before:
// evicting somebody's hot configuration file costs more than a few pages of ours.
const smallFile = 1 << 20

// cacheMark remembers which segments of a file had no page in memory.
type cacheMark struct {
	noted   atomic.Bool
	segment int64         // bytes per segment
	cold    atomic.Uint64 // bit i: segment i had no page in memory
}

// NoteCache remembers what of the file is in memory. Call it before the first read of a file that will be passed to
// DropCache; it costs one system call for a small file that is entirely in memory or entirely not, and at most 65.
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
	all, ok := f.cached(0, size)
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

// InMemory counts the pages of the file that are in memory, those that were asked for and are still on their way included;
// false where the system does not tell.
func (f *File) InMemory() (pages uint64, known bool) { return f.cached(0, int64(f.opened.Size)) }

// DropCache takes the pages of a range that was read out of memory again, except where NoteCache saw that somebody else
// had them there before. Without NoteCache, or on a kernel without cachestat, small files are left alone and ranges of
// large ones are dropped.
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
			return // past what was there when it was noted
		}
		if cold&(1<<i) != 0 {
			f.drop(at, end-at)
		}
		at = end
	}
}
