package machinestate

import "strings"

// volumeOf returns the mount point in the output of `diskutil info` of macOS.
func volumeOf(text string) (path string, ok bool) {
	for line := range strings.Lines(text) {
		if at, found := strings.CutPrefix(strings.TrimSpace(line), "Mount Point:"); found {
			path = strings.TrimSpace(at)
			return path, strings.HasPrefix(path, "/")
		}
	}
	return "", false
}
