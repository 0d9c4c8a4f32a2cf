package device

import "errors"

var (
	// ErrMedium: the word names no medium.
	ErrMedium = errors.New("not a medium")

	// ErrNumber: a device number does not identify a device.
	ErrNumber = errors.New("the number identifies no device")
)
