package repo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// Errors that callers distinguish.
var (
	// ErrNoRepository: the store has no config.
	ErrNoRepository = errors.New("there is no repository here; make one with 'tidemark init' or name another place")
	// ErrExists: the store already holds a repository.
	ErrExists = errors.New("there is a repository here already")
	// ErrWrongKey: none of the secrets offered opens any key slot.
	ErrWrongKey = keyfile.ErrWrongKey
	// ErrNoSnapshot: no snapshot matches.
	ErrNoSnapshot = errors.New("no matching snapshot; 'tidemark snapshots' lists those there are")
	// ErrKeyInUse: the key slot is the one this run was opened with.
	ErrKeyInUse = errors.New("this key opened the repository just now; open it with another key to remove this one")
	// ErrLastKey: without this key slot the repository could not be opened again.
	ErrLastKey = errors.New("this is the last key; add another one first")
	// ErrKeyGone: another run concurrently removed the key slot that this run was opened with.
	ErrKeyGone = errors.New("another run has just removed the key that opened the repository; 'tidemark key list' shows " +
		"what is left")
	// errTaken: another program stored its config first.
	errTaken = errors.New("another program made a repository at the same moment")
	// ErrNoKey: no key slot matches.
	ErrNoKey = errors.New("no matching key; 'tidemark key list' lists those there are")
	// ErrKeyExists: the secret already opens a slot. With two such slots, removing one would change nothing.
	ErrKeyExists = errors.New("this secret opens the repository already; choose another one, or remove that key first")
)

// PackError names the pack of a blob that could not be read. Its text is that of Err.
type PackError struct {
	Pack format.ID
	Err  error
}

func (e *PackError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PackError) Unwrap() error { return e.Err }

// IsPartial reports whether an error means that a part of the repository is damaged or missing, and not that the
// target cannot be reached. Other parts may be readable.
func IsPartial(err error) bool {
	var in *PackError
	return !errors.Is(err, store.ErrTemporary) && !errors.Is(err, store.ErrGone) &&
		(object.IsDamage(err) || errors.Is(err, store.ErrNotExist) || errors.As(err, &in))
}

// AmbiguousError reports that a reference has several matches.
type AmbiguousError struct {
	Ref     string
	Matches []string // an ID, or the beginning of one, and what distinguishes it
	Hint    string   // what to do
}

func (e *AmbiguousError) Error() string {
	const shown = 8
	list := e.Matches[:min(shown, len(e.Matches)):min(shown, len(e.Matches))]
	if more := len(e.Matches) - shown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%q is ambiguous, %s: %s", e.Ref, e.Hint, strings.Join(list, "; "))
}

// ambiguousID is the error for the beginning of several IDs.
func ambiguousID(prefix string, ids []format.ID) error {
	e := &AmbiguousError{Ref: prefix, Hint: "give more digits"}
	for _, id := range ids {
		e.Matches = append(e.Matches, id.String()[:min(len(prefix)+8, 2*format.IDSize)])
	}
	return e
}
