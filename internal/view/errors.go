package view

import "errors"

var (
	// ErrAbsent: a folder has no entry of that name or number. It is not fs.ErrNotExist, which the error of a store wraps
	// where a file of the repository is missing.
	ErrAbsent = errors.New("there is no such entry")
	// ErrNoContent: the snapshot has no content of the file, because it could not be read, or changed all the time.
	ErrNoContent = errors.New("the snapshot does not have its content")
)
