package localfs

// hasPositions reports whether the file system may report positions.
func (f *File) hasPositions() bool { return f.host.noPositions.Load() != 1+f.opened.Dev }

// position returns firstExtent, and records if the file system does not report positions. The kernel answers without
// calling a driver, so a device in the place of a presumed file does not notice.
func (f *File) position(size uint64) (at uint64, ok bool) {
	if at, ok = firstExtent(f.fd, size); ok {
		return at, true
	}
	if f.Confirm() != nil { // another object answered
		return 0, true
	}
	f.host.noPositions.Store(1 + f.opened.Dev)
	return 0, false
}

// HolesAreTrue is whether holes that a file system reports are believed.
const HolesAreTrue = true
