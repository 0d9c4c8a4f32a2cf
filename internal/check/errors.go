package check

import "errors"

var (
	// ErrSubset: the text does not name a part of a repository.
	ErrSubset = errors.New("write a share (5%), a fixed part (3/10) or an amount (500M)")
	// ErrSnapshot: a snapshot that was to be checked is not there.
	ErrSnapshot = errors.New("no such snapshot; 'tidemark snapshots' lists those there are")

	errGone    = errors.New("the index names it and it is not there")
	errName    = errors.New("its bytes do not have the hash that is its name")
	errForeign = errors.New("not a name that tidemark gives")
	errTable   = errors.New("the pack's own table differs from the index")
	errNoKeys  = errors.New("there is no key slot that can be read, so nobody can open this repository")
)
