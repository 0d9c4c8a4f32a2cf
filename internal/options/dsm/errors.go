package dsm

import "errors"

var (
	// ErrUnknown: no option of that name, neither of the caller's nor IBM's.
	ErrUnknown = errors.New("unknown option")
	// ErrSyntax: a line is not "KEYWORD value".
	ErrSyntax = errors.New("malformed line")
	// ErrStanza: the file has no stanza of the chosen name.
	ErrStanza = errors.New("no such stanza")
)

// Error is a mistake in one place of the configuration.
type Error struct {
	Origin string // "file:line", or what named a stanza
	Err    error
}

func (e *Error) Error() string { return e.Origin + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }
