package options

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/options/dsm"
)

var (
	// ErrValue: a value cannot be understood, or lies outside its range.
	ErrValue = errors.New("malformed value")
	// ErrConflict: two options of equal weight contradict each other.
	ErrConflict = errors.New("options contradict each other")
)

// Error is a mistake in one place of the configuration: its Origin is "file:line", an environment variable or a flag.
// Beneath it lie the sentinels of this package, of dsm and of rules.
type Error = dsm.Error

// Warning names something in the configuration that has no effect, or another one than its author may think.
type Warning struct {
	Origin string `json:"origin"` // "file:line", an environment variable or a flag
	Text   string `json:"text"`
}

// String returns the warning with its origin, for people.
func (w Warning) String() string { return fmt.Sprintf("%s: %s", w.Origin, w.Text) }
