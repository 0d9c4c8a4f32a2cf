package corpus

import "errors"

var (
	// ErrKind is returned for a name that is none of a data set.
	ErrKind = errors.New("no such data set")
	// ErrOther: a folder holds another set, or an incomplete one.
	ErrOther = errors.New("the folder holds something else")
)
