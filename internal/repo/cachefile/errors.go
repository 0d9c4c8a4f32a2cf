package cachefile

import "errors"

var (
	// ErrBusy: another process uses the file.
	ErrBusy = errors.New("the local cache is in use by another process")
	// ErrDamaged: the file does not hold what was written to it.
	ErrDamaged = errors.New("the local cache is damaged")
	// ErrForeign: the file was written for something else.
	ErrForeign = errors.New("it belongs to another repository or another version of tidemark")

	errNoFile = errors.New("it is not a regular file")
)
