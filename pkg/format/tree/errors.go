package tree

import "errors"

var (
	// ErrOrder: a name does not follow the one before it in the order of bytes.
	ErrOrder = errors.New("names are not in strictly ascending order of their bytes")
	// ErrTooLarge: the node's metadata exceed what a page may hold. Dropping its extended attributes makes it fit.
	ErrTooLarge = errors.New("metadata of the node are too large")
	// ErrInvalid: a field of the node has a value that its type or the format does not allow.
	ErrInvalid = errors.New("node is not valid")
)
