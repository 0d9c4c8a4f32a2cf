package localfs

import "golang.org/x/sys/unix"

// While the gate limits I/O, files that the page cache holds are opened and read without it: they cause no I/O, so they
// are no operations, need no slot and leave the gaps of the watcher as they are. Only a file that is cached to its end
// qualifies. In any other, reading a cached page may start read-ahead of the next ones, even with POSIX_FADV_RANDOM and
// RWF_NOWAIT.
//
// If a page is evicted between the query and the read, the kernel begins to fetch it and the read fails. These bytes
// count as own ones, since the watcher knows what this process has submitted.

// Resident reports whether the page cache holds all of the known file name. It is false for an empty file, where the
// system does not report it, and on file systems whose reads block.
func (d *Dir) Resident(name string, known Known) bool {
	if checkName(name) != nil {
		return false
	}
	f := File{content: content{fd: -1}, host: d.host}
	if f.fd = d.openCached(name, known, &f.opened); f.fd < 0 {
		return false
	}
	defer unix.Close(f.fd)
	f.ProbeCache()
	return f.resident
}

// ReadResident is ReadWhole for those of files that the page cache holds, while the gate limits I/O. It moves them to
// the front and returns the rest. A file that has grown since it was opened is read to its former size.
func (b *Batch) ReadResident(room []byte, files []BatchFile) (rest []BatchFile) {
	if len(files) == 0 || files[0].File.MaxIO() == 0 {
		return files
	}
	n := 0
	for i := range files {
		w := &files[i]
		if w.Size != w.File.opened.Size {
			continue
		}
		if w.File.ProbeCache(); w.File.resident && w.File.readCached(w.buffer(room)[:w.Size], 0) {
			w.N, w.Err = int(w.Size), nil
			files[n], files[i] = files[i], files[n]
			n++
		}
	}
	return files[n:]
}

// readResident is ReadAt for a part of a file that the page cache held when it was probed, and holds now.
func (f *File) readResident(p []byte, off int64) bool {
	if !f.resident || f.MaxIO() == 0 || off+int64(len(p)) > int64(f.opened.Size) {
		return false
	}
	held, known := f.cached(off, int64(len(p)))
	return known && whole(held, off, int64(len(p))) && f.readCached(p, off)
}

// whole reports whether so many pages are all of a range of n bytes from off.
func whole(held uint64, off, n int64) bool {
	size := int64(unix.Getpagesize())
	return n > 0 && int64(held) > (off+n-1)/size-off/size
}
