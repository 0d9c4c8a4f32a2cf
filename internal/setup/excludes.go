package setup

import (
	"path/filepath"
	"strings"
)

// Excludes returns the patterns that are proposed for sources: caches and trash of the home folder, which programs make
// again or the user has thrown away. system is runtime.GOOS.
func Excludes(home, system string, sources []string) []string {
	covered := false
	for _, source := range sources {
		covered = covered || within(home, source)
	}
	if home == "" || !covered {
		return nil
	}
	names := []string{".cache", ".local/share/Trash", ".thumbnails", ".var/app/*/cache", "snap/*/common/.cache"}
	if system == "darwin" {
		names = []string{"Library/Caches", ".Trash", ".cache", "Library/Containers/*/Data/Library/Caches"}
	}
	var all []string
	for _, name := range names {
		all = append(all, filepath.Join(EscapeGlob(home), name))
	}
	return all
}

// EscapeGlob quotes the characters that have a meaning in a pattern.
func EscapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
