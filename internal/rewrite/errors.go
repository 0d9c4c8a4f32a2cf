package rewrite

import "errors"

// Errors of a request.
var (
	// ErrNoChange: neither tags nor patterns are given.
	ErrNoChange = errors.New("nothing says what to change")
	// ErrDamaged: a snapshot lost data, which a replacement would hide.
	ErrDamaged = errors.New("it has lost data: run 'tidemark repair snapshots' first")
	// ErrEmpty: nothing would be left of a snapshot.
	ErrEmpty = errors.New("the patterns leave nothing of it, so it was kept: 'tidemark forget' removes it")
)
