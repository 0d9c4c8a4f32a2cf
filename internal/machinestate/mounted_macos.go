package machinestate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// mountsOfMac reads the mount table of macOS.
type mountsOfMac func() ([]localfs.Mount, error)

// points returns the mount points in the order of the table, which is sorted.
func (m mountsOfMac) points() (paths []string, err error) {
	all, err := m()
	for _, one := range all {
		paths = append(paths, one.Path)
	}
	return paths, err
}

// find returns where the volume with a name or UUID is mounted; by is "LABEL" or "UUID". macOS mounts a volume under
// its name. info returns the output of `diskutil info`, which knows the UUIDs and fails for one that is not there.
func (m mountsOfMac) find(by, name string, info func(uuid string) ([]byte, error)) (path string, ok bool) {
	if by == "UUID" {
		text, err := info(name)
		if err != nil {
			return "", false
		}
		return volumeOf(string(text))
	}
	path = "/Volumes/" + name
	points, err := m.points()
	return path, err == nil && slices.Contains(points, path)
}

// watch reports each change of the mount points until ctx ends. It reads the table at an interval. A table that cannot
// be read changes nothing.
func (m mountsOfMac) watch(ctx context.Context, changes chan<- struct{}, every time.Duration) {
	before, failed := m.points()
	for pause(ctx, every) {
		now, err := m.points()
		if err != nil {
			continue
		}
		if failed != nil || !slices.Equal(before, now) {
			signal(changes)
		}
		before, failed = now, nil
	}
}

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
