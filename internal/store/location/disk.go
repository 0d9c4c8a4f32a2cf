package location

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// ErrAway: the disk of a location is not mounted anywhere.
var ErrAway = errors.New("the disk is not connected: connect it, and see that it is mounted")

// Disk identifies a file system wherever it is mounted.
type Disk struct {
	By   string // "LABEL" or "UUID"; "": none
	Name string
}

// String returns the disk as it is written in a location.
func (d Disk) String() string { return d.By + "=" + d.Name }

// parseDisk reads LABEL=name/folder and UUID=id/folder. found is false for the name of a folder.
func parseDisk(text string) (l Location, found bool, err error) {
	by, rest, _ := strings.Cut(text, "=")
	if by != "LABEL" && by != "UUID" {
		return Location{}, false, nil
	}
	name, folder, _ := strings.Cut(rest, "/")
	if name == "" || name == "." || name == ".." {
		return Location{}, true, fmt.Errorf("repository %s: name the disk, such as %s=name/folder", text, by)
	}
	if by == "UUID" && strings.Trim(name, "0123456789abcdefABCDEF-") != "" || strings.HasPrefix(name, "-") {
		return Location{}, true, fmt.Errorf("repository %s: %q is no UUID of a file system: 'lsblk -f' or 'diskutil info' "+
			"shows it", text, name)
	}
	folder = filepath.Clean("/" + folder)[1:]
	if folder == "" {
		return Location{}, true, fmt.Errorf("repository %s: name a folder there, such as %s=%s/tidemark", text, by, name)
	}
	return Location{Disk: Disk{By: by, Name: name}, Folder: folder}, true, nil
}

// Find returns the location with the folder where its disk is mounted now. mounted looks for a disk. The error wraps
// ErrAway if it is mounted nowhere. A location without a disk is returned as it is.
func (l Location) Find(mounted func(by, name string) (path string, ok bool)) (Location, error) {
	if l.Disk == (Disk{}) || filepath.IsAbs(l.Folder) {
		return l, nil
	}
	path, ok := mounted(l.Disk.By, l.Disk.Name)
	if !ok {
		return l, fmt.Errorf("repository at %s: %w", l, ErrAway)
	}
	l.onDisk, l.Folder = l.Folder, filepath.Join(path, l.Folder)
	return l, nil
}
