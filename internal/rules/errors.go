package rules

import "errors"

var (
	// ErrPattern: a pattern or statement cannot be understood.
	ErrPattern = errors.New("malformed pattern")
	// ErrUnknown: a statement that neither TSM nor this program knows.
	ErrUnknown = errors.New("unknown statement")
	// ErrTooLarge: an ignore file is longer than MaxIgnoreFile; it is not used at all.
	ErrTooLarge = errors.New("ignore file is too large")

	// errNoMeaning: a statement that TSM knows and that has no effect on which paths are part of a backup here.
	errNoMeaning = errors.New("has no meaning here")
)
