package sourcesnap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// dataVolume is where macOS mounts the volume whose folders also appear at the root.
const dataVolume = "/System/Volumes/Data"

// apfs mounts local snapshots, which tmutil makes of all volumes at once.
type apfs struct {
	// volumeOf returns where the volume of a path is mounted, and the type of its file system.
	volumeOf func(path string) (volume, system string, err error)
	// run runs a program of the system and returns its output. Its error holds the output too.
	run  func(ctx context.Context, name string, args ...string) (output string, err error)
	root bool // this user may mount

	date    string            // of the snapshot; "": none yet
	folder  string            // for mount points
	mounted map[string]string // mount point of the snapshot by that of its volume
}

// Make implements Maker.
func (a *apfs) Make(ctx context.Context, source string) (place string, err error) {
	above, err := filepath.EvalSymlinks(filepath.Dir(source))
	if err != nil {
		return "", err
	}
	source = filepath.Join(above, filepath.Base(source))
	volume, system, err := a.volumeOf(source)
	if err != nil {
		return "", err
	}
	if system != "apfs" {
		return "", ErrFileSystem
	}
	if !a.root {
		return "", errors.New("only root can make a snapshot: run the backup as root, or in the service of the system")
	}
	at := a.mounted[volume]
	if at == "" {
		if at, err = a.mount(ctx, volume); err != nil {
			return "", err
		}
	}
	return placeIn(at, volume, source), nil
}

// placeIn returns where a source of a volume is in its snapshot, which is mounted at a path.
func placeIn(at, volume, source string) string {
	rest := strings.TrimPrefix(source, strings.TrimSuffix(volume, "/"))
	if volume == dataVolume && !strings.HasPrefix(source, dataVolume) {
		rest = source // seen through the root
	}
	return filepath.Join(at, rest)
}

// snapshotDate returns the date in the output of `tmutil localsnapshot`, by which the snapshot is named; "": none. A
// line about purgeable snapshots can precede it.
func snapshotDate(output string) string {
	return regexp.MustCompile(`\d{4}-\d{2}-\d{2}-\d{6}`).FindString(output)
}

// mount makes the snapshot, unless there is one, and mounts that of a volume.
func (a *apfs) mount(ctx context.Context, volume string) (at string, err error) {
	if a.date == "" {
		out, err := a.run(ctx, "tmutil", "localsnapshot")
		if err != nil {
			return "", err
		}
		if a.date = snapshotDate(out); a.date == "" {
			return "", fmt.Errorf("tmutil localsnapshot named no snapshot: %s", strings.TrimSpace(out))
		}
	}
	if a.folder == "" {
		if a.folder, err = os.MkdirTemp("", "tidemark-snapshot-"); err != nil {
			return "", err
		}
	}
	// The name is that of the volume's mount point, which may be a source itself. Two volumes can have the same name.
	number := strconv.Itoa(len(a.mounted))
	at = filepath.Join(a.folder, number, strings.ReplaceAll(filepath.Base(volume), "/", "root"))
	if err := os.MkdirAll(at, 0o700); err != nil {
		return "", err
	}
	name := "com.apple.TimeMachine." + a.date + ".local"
	if _, err := a.run(ctx, "mount_apfs", "-o", "ro,nobrowse", "-s", name, volume, at); err != nil {
		return "", errors.Join(err, removeMountPoint(at))
	}
	a.mounted[volume] = at
	return at, nil
}

// removeMountPoint removes a mount point and the folder that holds only it. It fails where something is mounted.
func removeMountPoint(at string) error {
	if err := os.Remove(at); err != nil {
		return err
	}
	return os.Remove(filepath.Dir(at))
}

// Close implements Maker. A snapshot that cannot be unmounted or deleted stays, and the next Close tries again.
func (a *apfs) Close(ctx context.Context) (err error) {
	for volume, at := range a.mounted {
		_, failed := a.run(ctx, "umount", at)
		if failed == nil {
			failed = removeMountPoint(at)
			delete(a.mounted, volume)
		}
		err = errors.Join(err, failed)
	}
	if a.date != "" && err == nil {
		if _, err = a.run(ctx, "tmutil", "deletelocalsnapshots", a.date); err == nil {
			a.date = ""
		}
	}
	if a.folder != "" && len(a.mounted) == 0 {
		err = errors.Join(err, os.Remove(a.folder))
		a.folder = ""
	}
	return err
}
