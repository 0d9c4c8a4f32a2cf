package optionfile

import "errors"

var (
	// ErrNotRegular: a device, a pipe or a folder is where a file is read or written.
	ErrNotRegular = errors.New("not a regular file: name another file")
	// ErrChanged: the option file is another one than was read.
	ErrChanged = errors.New("the option file was changed meanwhile; run the command again")
)
