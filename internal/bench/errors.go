package bench

import "errors"

var (
	// ErrConfig: what was asked for cannot be measured.
	ErrConfig = errors.New("cannot be measured")
	// ErrSpace: the disk has not enough room for the files that are read and written.
	ErrSpace = errors.New("not enough free space: name another directory, or fewer bytes")
)
