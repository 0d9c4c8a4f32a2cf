package dsm

import "errors"

var (
	// ErrUnknown: the name is neither an option of the caller nor one of IBM's.
	ErrUnknown = errors.New("unknown option")
	// ErrSyntax: a line is not "KEYWORD value".
	ErrSyntax = errors.New("malformed line")
	// ErrStanza: the file has no stanza of the chosen name.
	ErrStanza = errors.New("no such stanza")
)

// Error is a mistake in one place of the configuration.
type Error struct {
	Origin string // "file:line", or the source of a stanza name
	Err    error
}

func (e *Error) Error() string { return e.Origin + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
