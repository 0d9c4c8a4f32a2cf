package setup

import (
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/machinestate"
)

// Label implements System: udev links each label to its device, with blanks as \x20.
func (h *Host) Label(source string) string {
	const folder = "/dev/disk/by-label"
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return ""
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if to, err := filepath.EvalSymlinks(filepath.Join(folder, e.Name())); err == nil && to == real {
			return machinestate.UnescapeLabel(e.Name())
		}
	}
	return ""
}
