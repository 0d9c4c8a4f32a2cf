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
	return forget.ParsePolicy(text)
}
