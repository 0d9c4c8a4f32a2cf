package localfs

// Boot has no counterpart here: no file system of macOS is one that FSInfo.Dated speaks of.
func Boot() (id [16]byte, ok bool) { return id, false }
