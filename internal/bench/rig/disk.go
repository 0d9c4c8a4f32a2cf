package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig/hdd"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// Disk is a disk with a directory for the measurements. MakeDisk binds a file to a loop device without a page cache in
// between and gives it a file system; UseDirectory takes a directory of a file system that exists.
type Disk struct {
	root          string    // where it is mounted
	image, device string    // image is "" for a directory
	runtime       string    // where programs keep what lies in memory: sockets, shared state
	turning       *hdd.Disk // serves the image
}

// Kinds returns the kinds of disks for Open.
func Kinds() []string { return []string{"loop", "real", "hdd"} }

// Open makes a disk of some kind in dir.
func Open(ctx context.Context, kind, dir string, size int64) (*Disk, error) {
	switch kind {
	case "real":
		return UseDirectory(ctx, dir)
	case "hdd":
		return MakeTurning(ctx, dir, size)
	}
	return MakeDisk(ctx, dir, size)
}

// UseDirectory returns the disk under dir, with a new directory in it.
func UseDirectory(ctx context.Context, dir string) (_ *Disk, err error) {
	d := &Disk{root: filepath.Join(dir, "disk")}
	out, err := Command(ctx, "findmnt", "-n", "-o", "SOURCE", "-T", dir)
	if err != nil {
		return nil, err
	}
	d.device = strings.TrimSpace(string(out))
	if _, err := d.Moved(); err != nil {
		return nil, fmt.Errorf("%s lies on %s, which is no block device with counters; take another place with -dir: %w",
			dir, d.device, err)
	}
	if err := os.Mkdir(d.root, 0o755); err != nil {
		return nil, err
	}
	if d.runtime, err = os.MkdirTemp("/dev/shm", "tidemark-bench-"); err != nil {
		return nil, err
	}
	return d, nil
}

// MakeDisk makes a disk of so many bytes in dir. The file is allocated at once, so that the file system below does not
// allocate during a measurement.
func MakeDisk(ctx context.Context, dir string, size int64) (_ *Disk, err error) {
	d := &Disk{image: filepath.Join(dir, "disk.img"), root: filepath.Join(dir, "disk")}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove())
		}
	}()
	if _, err := Command(ctx, "fallocate", "-l", strconv.FormatInt(size, 10), d.image); err != nil {
		return nil, fmt.Errorf("%w; is there room for %d GiB? -dir names another place, -size makes it smaller",
			err, size>>30)
	}
	return d, d.bind(ctx, "")
}

// MakeTurning makes a disk whose requests take as long as those of one with a moving arm.
func MakeTurning(ctx context.Context, dir string, size int64) (_ *Disk, err error) {
	d := &Disk{image: filepath.Join(dir, "disk.img"), root: filepath.Join(dir, "disk")}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove())
		}
	}()
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return nil, err
	}
	if d.turning, err = hdd.Mount(d.image, filepath.Join(dir, "sectors"), hdd.Usual(size)); err != nil {
		return nil, err
	}
	return d, d.bind(ctx, "1")
}

// bind binds the image to a loop device with a file system, whose tables are initialised now and not in the background.
// rotational is the value of the kernel's flag for the disk; "": unchanged.
func (d *Disk) bind(ctx context.Context, rotational string) (err error) {
	if err := os.Mkdir(d.root, 0o755); err != nil {
		return err
	}
	if d.runtime, err = os.MkdirTemp("/dev/shm", "tidemark-bench-"); err != nil {
		return err
	}
	out, err := Command(ctx, "losetup", "--direct-io=on", "--find", "--show", d.image)
	if err != nil {
		return err
	}
	d.device = strings.TrimSpace(string(out))
	queue := filepath.Join("/sys/block", d.Name(), "queue")
	if dio, err := sysinfo.ReadFile(filepath.Join("/sys/block", d.Name(), "loop/dio")); err != nil ||
		strings.TrimSpace(string(dio)) != "1" {
		return fmt.Errorf("the file system below %s does not let a loop device pass its page cache by; take another "+
			"place with -dir", d.image)
	}
	if rotational != "" {
		if err := os.WriteFile(filepath.Join(queue, "rotational"), []byte(rotational), 0); err != nil {
			return err
		}
	}
	const options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
	if _, err := Command(ctx, "mkfs.ext4", "-q", "-E", options, d.device); err != nil {
		return err
	}
	_, err = Command(ctx, "mount", d.device, d.root)
	return err
}

// Remove removes all parts of d. It also works after the context has ended.
func (d *Disk) Remove() error {
	ctx := context.Background()
	var all error
	if d.image == "" {
		return errors.Join(os.RemoveAll(d.root), os.RemoveAll(d.runtime))
	}
	if mounted, _ := Command(ctx, "findmnt", "-n", d.root); len(mounted) > 0 {
		all = errors.Join(all, d.unmount(ctx))
	}
	if d.device != "" {
		_, err := Command(ctx, "losetup", "-d", d.device)
		all = errors.Join(all, err)
	}
	if d.turning != nil {
		all = errors.Join(all, d.turning.Unmount())
	}
	if d.runtime != "" {
		all = errors.Join(all, os.RemoveAll(d.runtime))
	}
	if err := os.Remove(d.image); err != nil && !errors.Is(err, os.ErrNotExist) {
		all = errors.Join(all, err)
	}
	return all
}

// unmount waits a little for programs that have been killed to be gone.
func (d *Disk) unmount(ctx context.Context) (err error) {
	for range 60 {
		if _, err = Command(ctx, "umount", d.root); err == nil {
			return nil
		}
		if Pause(ctx, 250*time.Millisecond) != nil {
			break
		}
	}
	return err
}

// Name is the device as in /sys/block.
func (d *Disk) Name() string { return filepath.Base(d.device) }

// At is a path on the disk.
func (d *Disk) At(parts ...string) string {
	return filepath.Join(append([]string{d.root}, parts...)...)
}

// Describe names the layers of the disk.
func (d *Disk) Describe() string {
	out, err := Command(context.Background(), "df", "--output=source", filepath.Dir(d.root))
	_, below, _ := strings.Cut(string(out), "\n")
	if err != nil {
		below = "an unknown device"
	}
	kernel, _ := sysinfo.ReadFile("/proc/sys/kernel/osrelease")
	if d.image == "" {
		return fmt.Sprintf("a directory on %s; Linux %s", strings.TrimSpace(below), strings.TrimSpace(string(kernel)))
	}
	if d.turning != nil {
		return fmt.Sprintf("ext4 on an emulated disk with a moving arm, in memory of %s; Linux %s", strings.TrimSpace(below),
			strings.TrimSpace(string(kernel)))
	}
	return fmt.Sprintf("ext4 on a loop device with direct I/O, on %s; Linux %s", strings.TrimSpace(below),
		strings.TrimSpace(string(kernel)))
}

// Moved is how many bytes all processes have read from the disk and written to it so far.
func (d *Disk) Moved() (uint64, error) {
	text, err := sysinfo.ReadFile("/sys/class/block/" + d.Name() + "/stat")
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat adds up the sectors read and written of a file /sys/block/*/stat, in bytes.
func parseStat(text string) (uint64, error) {
	fields := strings.Fields(text)
	if len(fields) < 7 {
		return 0, fmt.Errorf("statistics of the disk have %d fields", len(fields))
	}
	read, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return 0, err
	}
	written, err := strconv.ParseUint(fields[6], 10, 64)
	return (read + written) * 512, err
}

// Settle flushes dirty pages and, if cold, drops all caches.
func (d *Disk) Settle(ctx context.Context, cold bool) error {
	if _, err := Command(ctx, "sync", "-f", d.root); err != nil {
		return err
	}
	if !cold {
		return nil
	}
	return kit.DropClean()
}

// Command runs a small tool.
func Command(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, kit.Tail(out))
	}
	return out, nil
}
