package options

import (
	"errors"
	"fmt"
)

var (
	// ErrValue: a value is malformed or out of range.
	ErrValue = errors.New("malformed value")
	// ErrConflict: two options of the same rank contradict each other.
	ErrConflict = errors.New("options contradict each other")
	// errSyntax: a line is not "KEYWORD value".
	errSyntax = errors.New("malformed line")
	// errStanza: the file has no stanza of the chosen name.
	errStanza = errors.New("no such stanza")
)

// Error is a mistake in the configuration. It wraps the sentinels of this package and of rules.
type Error struct {
	Origin string // "file:line", an environment variable, a flag, or the source of a stanza name
	Err    error
}

func (e *Error) Error() string { return e.Origin + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Warning reports a setting without effect, or an unexpected one.
type Warning struct {
	Origin string `json:"origin"` // "file:line", an environment variable or a flag
	Text   string `json:"text"`
	Once   bool   `json:"-"` // it is enough to print it when the file has changed
}

// String returns the warning with its origin.
func (w Warning) String() string { return fmt.Sprintf("%s: %s", w.Origin, w.Text) }
