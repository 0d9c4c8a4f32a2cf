package localfs

// Known is the file that the scan found under a name. Opening that file is cheaper; the result is the same for any
// other.
type Known struct{ Dev, Ino uint64 }
