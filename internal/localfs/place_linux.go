package localfs

import "github.com/tidemark-backup/tidemark/internal/localfs/disk"

// placed reports whether the file system of f is not known to tell no places.
func (f *File) placed() bool { return f.host.unplaced.Load() != 1+f.opened.Dev }

// place returns where the first extent of a file of size bytes begins on its device, in bytes; 0: it has none that has a
// place, or that cannot be found out. ok is false if the file system tells no places at all, which is remembered.
//
// The kernel answers this request itself and hands it to no driver, so a device in the place of a presumed file takes no
// notice.
func (f *File) place(size uint64) (at uint64, ok bool) {
	if at, ok = disk.Place(f.fd, size); ok {
		return at, true
	}
	if f.Confirm() != nil { // it is the word of something else
		return 0, true
	}
	f.host.unplaced.Store(1 + f.opened.Dev)
	return 0, false
}
