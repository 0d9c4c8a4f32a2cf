package optionfile

import "errors"

var (
	// ErrQuotes: a value contains what no option file can hold.
	ErrQuotes = errors.New("an option file cannot hold a value with a line end or with both kinds of quotes")
	// ErrNotRegular: a device, a pipe or a folder is where a file is read or written.
	ErrNotRegular = errors.New("not a regular file: name another file")
	// ErrChanged: the option file is another one than was read.
	ErrChanged = errors.New("the option file was changed meanwhile; run the command again")
)
