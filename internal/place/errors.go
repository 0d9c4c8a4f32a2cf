package place

import "errors"

// ErrGone: there was a repository.
var ErrGone = errors.New("there is no repository now: is its disk connected and mounted? If it was removed for good, " +
	"make a new one with 'tidemark init'")

// errNoName: the options name no repository, and there is no place for the default one.
var errNoName = errors.New("name a repository with --repo or TIDEMARK_REPOSITORY: this user has no home directory")
