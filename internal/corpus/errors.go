package corpus

import "errors"

var (
	// ErrKind is returned for a name that is none of a data set.
	ErrKind = errors.New("no such data set")
	// ErrOther is returned where a folder holds something else than what is asked for, or only a part of it.
	ErrOther = errors.New("the folder holds something else")
)
