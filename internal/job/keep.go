package job

import (
	"strings"

	"github.com/tidemark-backup/tidemark/internal/forget"
)

// ParseKeep reads which snapshots a job keeps; nil: all.
func ParseKeep(text string) (*forget.Policy, error) {
	if strings.EqualFold(strings.TrimSpace(text), "all") {
		return nil, nil
	}
	return forget.ParsePolicy(text) //nolint:wrapcheck // it names the text and says what to write
}

// KeepArgs returns the flags of `tidemark forget` for a valid text; none: nothing is to be removed.
func KeepArgs(text string) []string {
	if p, err := ParseKeep(text); err != nil || p == nil {
		return nil
	}
	return []string{"--keep", text}
}
