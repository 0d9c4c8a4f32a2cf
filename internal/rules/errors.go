package rules

import "errors"

var (
	// ErrPattern: a pattern or statement is malformed.
	ErrPattern = errors.New("malformed pattern")
	// ErrUnknown: a statement that is unknown to TSM and to this program.
	ErrUnknown = errors.New("unknown statement")
	// ErrTooLarge: an ignore file is longer than MaxIgnoreFile; it is not used at all.
	ErrTooLarge = errors.New("ignore file is too large")

	// errNoMeaning: a TSM statement without effect on the paths of a backup here.
	errNoMeaning = errors.New("has no meaning here")
)
