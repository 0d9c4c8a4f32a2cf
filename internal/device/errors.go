package device

import "errors"

var (
	// ErrMedium: the word names no medium.
	ErrMedium = errors.New("not a medium")
	// ErrNoSample: a probe found nothing to tell a disk that turns from one that does not.
	ErrNoSample = errors.New("no reads to judge the disk by; say with --medium what it is")

	// ErrNumber: a device number does not tell which device it is.
	ErrNumber = errors.New("the number tells no device")

	errEnough = errors.New("enough entries") // ends the listing of a directory
)
