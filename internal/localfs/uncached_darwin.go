package localfs

// uncached is 0: bypassCache serves instead.
func (f *File) uncached(bool) uint32 { return 0 }

func (f *File) readUncached([]byte, uint32) (n int, err error, ok bool) { return 0, nil, false }

func (f *File) noteRefused(error) bool { return false }

// canWait is false: files are read singly.
func (f *File) canWait() bool { return false }
