package localfs

// hasPositions is false: macOS reports positions only to processes that may read the device.
func (f *File) hasPositions() bool { return false }

func (f *File) position(uint64) (at uint64, ok bool) { return 0, false }
