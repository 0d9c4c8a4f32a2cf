package setup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
			return unescapeLabel(e.Name())
		}
	}
	return ""
}

func unescapeLabel(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if strings.HasPrefix(name[i:], `\x`) && i+4 <= len(name) {
			if n, err := strconv.ParseUint(name[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
