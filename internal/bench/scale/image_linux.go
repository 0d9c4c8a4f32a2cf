package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// makeImage makes a sparse ext4 image with inodes for so many files in about an eleventh as many directories. Inodes
// hold up to 60 bytes of content themselves. There is no journal, because the image is disposable.
func makeImage(ctx context.Context, image string, files int) error {
	inodes := int64(files)*5/4 + 10_000
	// One file in twenty takes a block of 4 KiB, and so does each directory; as much again for large files and for the
	// metadata of the file system.
	size := inodes*256 + 2*(inodes/20+inodes/8)*4096 + 64<<20
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, size); err != nil {
		return err
	}
	made := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-I", "256", "-N", strconv.FormatInt(inodes, 10),
		"-O", "inline_data,^has_journal,^resize_inode", "-E", "lazy_itable_init=1", image)
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("make ext4 image: %w\n%s", err, out)
	}
	return nil
}

// mountImage mounts an image that makeImage made. Tables of inodes are not wiped in the background: a fresh file is all
// zeros.
func mountImage(ctx context.Context, image, at string) (*mounted, error) {
	mount := exec.CommandContext(ctx, "mount", "-o", "loop,noatime,noinit_itable", image, at)
	if out, err := mount.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mount ext4 image (this needs root; -image none does without): %w\n%s", err,
			strings.TrimSpace(string(out)))
	}
	return &mounted{at: at, tries: unmountTries}, nil
}

// A process that scans the tree (a "du" of the disk, an indexer) holds the mount until it ends, and so does a killed
// program until its last request is answered.
const (
	unmountTries = 30
	unmountPause = time.Second
)

// mounted is an image that is mounted.
type mounted struct {
	at    string
	tries int
}

// unmount unmounts it. While processes hold it, it waits; then the error is errMounted and names them.
func (m *mounted) unmount() error {
	for try := 1; ; try++ {
		err := unix.Unmount(m.at, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil:
			return nil // also frees the loop device, to which mount(8) has given autoclear
		case !errors.Is(err, unix.EBUSY):
			return fmt.Errorf("%w: unmount %s: %w", errMounted, m.at, err)
		case try == m.tries:
			return fmt.Errorf("%w: %s is held by %s; end that, then umount it", errMounted, m.at, holders(m.at))
		case try == 1:
			fmt.Fprintf(os.Stderr, "waiting to unmount %s, held by %s\n", m.at, holders(m.at))
		}
		time.Sleep(unmountPause)
	}
}

// holders lists the processes that have a file open on the file system of a path, or their working directory there.
func holders(at string) string {
	var here unix.Stat_t
	if err := unix.Stat(at, &here); err != nil {
		return "somebody: " + err.Error()
	}
	held := func(link string) bool {
		var st unix.Stat_t
		return unix.Stat(link, &st) == nil && st.Dev == here.Dev
	}
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		links, _ := filepath.Glob(dir + "/fd/*")
		if slices.ContainsFunc(append(links, dir+"/cwd", dir+"/root", dir+"/exe"), held) {
			name, _ := sysinfo.ReadFile(dir + "/comm")
			found = append(found, fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(dir)))
		}
	}
	if found == nil {
		return "nobody who can be seen from here"
	}
	return strings.Join(found, ", ")
}
