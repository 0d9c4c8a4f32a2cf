package device

import "errors"

var (
	// ErrMedium: the word names no medium.
	ErrMedium = errors.New("not a medium")

	// ErrNumber: a device number does not tell which device it is.
	ErrNumber = errors.New("the number tells no device")
)
