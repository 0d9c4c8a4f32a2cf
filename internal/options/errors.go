package options

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/options/dsm"
)

var (
	// ErrValue: a value is malformed or out of range.
	ErrValue = errors.New("malformed value")
	// ErrConflict: two options of the same rank contradict each other.
	ErrConflict = errors.New("options contradict each other")
	// ErrDomain: no file system is left to back up.
	ErrDomain = errors.New("no file system is left to back up")
)

// Error is a mistake in the configuration. Its Origin is "file:line", an environment variable or a flag. It wraps the
// sentinels of this package, of dsm and of rules.
type Error = dsm.Error

// Warning reports a setting without effect, or an unexpected one.
type Warning struct {
	Origin string `json:"origin"` // "file:line", an environment variable or a flag
	Text   string `json:"text"`
	Once   bool   `json:"-"` // it is enough to print it when the file has changed
}

// String returns the warning with its origin.
func (w Warning) String() string { return fmt.Sprintf("%s: %s", w.Origin, w.Text) }
