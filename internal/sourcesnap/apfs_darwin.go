package sourcesnap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// dataVolume is where macOS mounts the volume whose folders also appear at the root.
const dataVolume = "/System/Volumes/Data"

// apfs mounts local snapshots, which tmutil makes of all volumes at once.
type apfs struct {
	date    string            // of the snapshot; "": none yet
	folder  string            // for mount points
	mounted map[string]string // mount point of the snapshot by that of its volume
}

func newAPFS() (Maker, error) { return &apfs{mounted: map[string]string{}}, nil }

// Make implements Maker.
func (a *apfs) Make(ctx context.Context, source string) (place string, err error) {
	above, err := filepath.EvalSymlinks(filepath.Dir(source))
	if err != nil {
		return "", err //nolint:wrapcheck // it names the path
	}
	source = filepath.Join(above, filepath.Base(source))
	var system unix.Statfs_t
	if err := unix.Statfs(source, &system); err != nil {
		return "", fmt.Errorf("statfs %s: %w", source, err)
	}
	volume := unix.ByteSliceToString(system.Mntonname[:])
	if unix.ByteSliceToString(system.Fstypename[:]) != "apfs" {
		return "", ErrFileSystem
	}
	if os.Geteuid() != 0 {
		return "", ErrRoot
	}
	at := a.mounted[volume]
	if at == "" {
		if at, err = a.mount(ctx, volume); err != nil {
			return "", err
		}
	}
	rest := strings.TrimPrefix(source, strings.TrimSuffix(volume, "/"))
	if volume == dataVolume && !strings.HasPrefix(source, dataVolume) {
		rest = source // seen through the root
	}
	return filepath.Join(at, rest), nil
}

// mount makes the snapshot, unless there is one, and mounts that of a volume.
func (a *apfs) mount(ctx context.Context, volume string) (at string, err error) {
	if a.date == "" {
		out, err := command(ctx, "tmutil", "localsnapshot")
		if err != nil {
			return "", err
		}
		if a.date = regexp.MustCompile(`\d{4}-\d{2}-\d{2}-\d{6}`).FindString(out); a.date == "" {
			return "", fmt.Errorf("tmutil localsnapshot named no snapshot: %s", strings.TrimSpace(out))
		}
	}
	if a.folder == "" {
		if a.folder, err = os.MkdirTemp("", "tidemark-snapshot-"); err != nil {
			return "", err //nolint:wrapcheck // it names the path
		}
	}
	// The name is that of the volume's mount point, which may be a source itself. Two volumes can have the same name.
	at = filepath.Join(a.folder, fmt.Sprint(len(a.mounted)), strings.ReplaceAll(filepath.Base(volume), "/", "root"))
	if err := os.MkdirAll(at, 0o700); err != nil {
		return "", err //nolint:wrapcheck // it names the path
	}
	name := "com.apple.TimeMachine." + a.date + ".local"
	if _, err := command(ctx, "mount_apfs", "-o", "ro,nobrowse", "-s", name, volume, at); err != nil {
		return "", err
	}
	a.mounted[volume] = at
	return at, nil
}

// command runs a program of the system and returns its output.
func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// Close implements Maker. A folder with a snapshot that cannot be unmounted stays.
func (a *apfs) Close(ctx context.Context) (err error) {
	for volume, at := range a.mounted {
		_, failed := command(ctx, "umount", at)
		if failed == nil {
			failed = errors.Join(os.Remove(at), os.Remove(filepath.Dir(at)))
			delete(a.mounted, volume)
		}
		err = errors.Join(err, failed)
	}
	if a.date != "" && err == nil {
		_, err = command(ctx, "tmutil", "deletelocalsnapshots", a.date)
		a.date = ""
	}
	if a.folder != "" && len(a.mounted) == 0 {
		err = errors.Join(err, os.RemoveAll(a.folder))
		a.folder = ""
	}
	return err
}
