package speedtest

import "errors"

var (
	// ErrConfig: the requested measurement is impossible.
	ErrConfig = errors.New("cannot be measured")
	// ErrSpace: the disk has too little space for the test files.
	ErrSpace = errors.New("not enough free space: name another directory, or fewer bytes")
)
