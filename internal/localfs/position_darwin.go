package localfs

// hasPositions is false: macOS reports positions only to processes that may read the device.
func (f *File) hasPositions() bool { return false }

func (f *File) position(uint64) (at uint64, ok bool) { return 0, false }

// HolesAreTrue is false: APFS has reported holes over data that was written, until the next mount
// (github.com/coreutils/coreutils/pull/68).
const HolesAreTrue = false
