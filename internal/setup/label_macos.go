package setup

import (
	"path"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// labelOfMac returns the label of a device: macOS mounts a volume directly in /Volumes under its label.
func labelOfMac(mounts []localfs.Mount, source string) string {
	for _, m := range mounts {
		if m.Source == source && path.Dir(m.Path) == "/Volumes" {
			return path.Base(m.Path)
		}
	}
	return ""
}
