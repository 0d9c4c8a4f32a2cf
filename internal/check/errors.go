package check

import "errors"

var (
	// ErrSubset: the text does not name a part of a repository.
	ErrSubset = errors.New("write a share (5%), a fixed part (3/10) or an amount (500M)")
	// ErrUnsteady: packs seem damaged in each pass of a check, others each time, and are intact at a second look.
	ErrUnsteady = errors.New("what is read from the repository changes on the way, so that it cannot be checked; for a " +
		"share, add --smb-sign required, or look for a cable, a switch or memory that fails, and check again")

	// errDeleted: a snapshot disappeared that this machine saved or saw.
	errDeleted = errors.New("it is missing, and no 'tidemark forget' removed it")
	// errLost ends the reading of a directory with a lost page, after the loss was recorded.
	errLost    = errors.New("lost")
	errNowhere = errors.New("it is in no pack of this repository")
	errGone    = errors.New("the index names it and it is not there")
	errName    = errors.New("its bytes do not have the hash that is its name")
	errForeign = errors.New("not a name that tidemark gives")
	errTable   = errors.New("the pack's own table differs from the index")
	errNoKeys  = errors.New("no key slot can be read, so this repository cannot be opened")
)
