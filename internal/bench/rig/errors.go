package rig

import "errors"

var (
	// ErrNoGates: a tidemark printed no status of its gates.
	ErrNoGates = errors.New("tidemark reported no gates")
	// ErrTooLong: a backup was killed because it was not over.
	ErrTooLong = errors.New("the backup is not over")
)
