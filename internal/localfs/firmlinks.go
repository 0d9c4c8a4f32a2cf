package localfs

import (
	"path/filepath"
	"runtime"
	"strings"
)

// SystemVolumes is where macOS mounts the volumes that make up the system. The files of the data volume also appear at
// the root, by firmlinks, and stat(2) returns one device number for both volumes (AT_REALDEV of XNU's sys/fcntl.h asks
// for the other one).
const SystemVolumes = "/System/Volumes"

// Firmlinks returns the folders below the root that lie on the data volume of a Mac; nil elsewhere. read reads a file.
func Firmlinks(read func(path string) ([]byte, error)) []string {
	if runtime.GOOS != "darwin" {
		return nil
	}
	content, err := read("/usr/share/firmlinks")
	if err != nil {
		return nil // before macOS 10.15, where there is one volume
	}
	return parseFirmlinks(string(content))
}

// parseFirmlinks reads lines of a path, a tab, and a path relative to the data volume.
func parseFirmlinks(text string) (paths []string) {
	for line := range strings.Lines(text) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if filepath.IsAbs(path) && path != "/" {
			paths = append(paths, filepath.Clean(path))
		}
	}
	return paths
}
