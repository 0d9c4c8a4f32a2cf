package setup

import (
	"path/filepath"
	"strings"
)

// Label implements System: macOS mounts a volume under its label.
func (h *Host) Label(source string) string {
	mounts, err := h.Mounts()
	if err != nil {
		return ""
	}
	for _, m := range mounts {
		if m.Source == source && strings.HasPrefix(m.Path, "/Volumes/") {
			return filepath.Base(m.Path)
		}
	}
	return ""
}
