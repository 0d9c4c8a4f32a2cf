package repair

import "errors"

var (
	// ErrBusy: a prune is at work, which changes the index itself.
	ErrBusy = errors.New("a prune is at work; run this again when it has ended")
	// ErrNoPack: no pack that is marked as damaged has such a name.
	ErrNoPack = errors.New("no pack that is marked as damaged has a name that begins so; 'tidemark check --read-data' " +
		"finds damaged packs and marks them")
)
