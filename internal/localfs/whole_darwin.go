package localfs

// past has no counterpart: NoteCache keeps the pages from coming.
func (f *File) past(bool) uint32 { return 0 }

func (f *File) guarded(bool) uint32 { return 0 }

func (f *File) readPast([]byte, uint32) (n int, err error, ok bool) { return 0, nil, false }

func (f *File) refused(error) bool { return false }

// async has no counterpart: there is no way to read files together.
func (f *File) async() bool { return false }
