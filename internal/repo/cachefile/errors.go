package cachefile

import "errors"

var (
	// ErrBusy: another process uses the cache. OpenTemp makes a private one.
	ErrBusy = errors.New("the local cache is in use by another process")
	// ErrDamaged: the cache file does not hold what was written to it. Close then removes the file, and the next Open
	// creates an empty one.
	ErrDamaged = errors.New("the local cache is damaged")

	// errForeign: the file is a sound bbolt file of another repository or another layout.
	errForeign = errors.New("it belongs to another repository or another version of tidemark")
	errNoFile  = errors.New("it is not a regular file")
)
