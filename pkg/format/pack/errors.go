package pack

import "errors"

var (
	// ErrFull: the frame does not fit, because a pack never exceeds MaxPack bytes. Finish this pack and append the
	// frame to a new one.
	ErrFull = errors.New("pack is full")
	// ErrFinished: the builder has already returned its pack.
	ErrFinished = errors.New("pack is already finished")
)
