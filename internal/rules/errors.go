package rules

import "errors"

var (
	// ErrPattern: a pattern or statement cannot be understood.
	ErrPattern = errors.New("malformed pattern")
	// ErrNoMeaning: a statement that TSM knows and that has no effect on which paths are part of a backup here.
	ErrNoMeaning = errors.New("has no meaning here")
	// ErrUnknown: a statement that neither TSM nor this program knows.
	ErrUnknown = errors.New("unknown statement")
	// ErrTooLarge: an ignore file is longer than MaxIgnoreFile; it is not used at all.
	ErrTooLarge = errors.New("ignore file is too large")
)

// MarkerError says that a marker file is there and its header could not be read, so that nothing was excluded by it.
type MarkerError struct {
	Path string
	Err  error
}

func (e *MarkerError) Error() string { return "read marker file " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *MarkerError) Unwrap() error { return e.Err }
