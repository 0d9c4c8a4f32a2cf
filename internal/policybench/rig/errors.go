package rig

import "errors"

var (
	// ErrNoGates: a tidemark printed nothing about its gates.
	ErrNoGates = errors.New("tidemark told nothing about its gates")
	// ErrTooLong: a backup was killed because it was not over.
	ErrTooLong = errors.New("the backup is not over")
)
