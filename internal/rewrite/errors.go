package rewrite

import "errors"

// Errors of a request.
var (
	// ErrNoChange: neither tags nor patterns are given.
	ErrNoChange = errors.New("nothing says what to change")
	// ErrDamaged: a snapshot lost data, which a replacement would hide.
	ErrDamaged = errors.New("it has lost data: run 'tidemark repair snapshots' first")
	// ErrPruned: a forgotten snapshot cannot be brought back.
	ErrPruned = errors.New("it cannot be brought back: a prune has removed data that it needs")
	// ErrNotForgotten: no tombstone has the content of such a snapshot.
	ErrNotForgotten = errors.New("no forgotten snapshot has this ID: 'tidemark snapshots --forgotten' lists them")
	// ErrSeveral: the beginning of an ID is not enough.
	ErrSeveral = errors.New("several forgotten snapshots have an ID that begins like this: write more of it")
	// ErrEmpty: nothing would be left of a snapshot.
	ErrEmpty = errors.New("the patterns leave nothing of it, so it was kept: 'tidemark forget' removes it")
)
