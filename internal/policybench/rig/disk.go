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

	"github.com/tidemark-backup/tidemark/internal/kernelfile"
)

// Disk is a file that is a disk: bound to a loop device, which reads and writes it without a page cache in between, with
// a file system of its own.
type Disk struct {
	root          string // where it is mounted
	image, device string
	runtime       string // where programs keep what lies in memory: sockets, shared state
}

// MakeDisk makes one of so many bytes in dir. The file is allocated at once, so that the file system below has nothing to
// do later; and ext4 initialises all tables now and not in the background.
func MakeDisk(ctx context.Context, dir string, size int64) (_ *Disk, err error) {
	d := &Disk{image: filepath.Join(dir, "disk.img"), root: filepath.Join(dir, "disk")}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove())
		}
	}()
	if err := os.Mkdir(d.root, 0o755); err != nil {
		return nil, err
	}
	if d.runtime, err = os.MkdirTemp("/dev/shm", "policybench-"); err != nil {
		return nil, err
	}
	if _, err := Command(ctx, "fallocate", "-l", strconv.FormatInt(size, 10), d.image); err != nil {
		return nil, fmt.Errorf("%w; is there room for %d GiB? -dir names another place, -size makes it smaller", err, size>>30)
	}
	out, err := Command(ctx, "losetup", "--direct-io=on", "--find", "--show", d.image)
	if err != nil {
		return nil, err
	}
	d.device = strings.TrimSpace(string(out))
	if dio, err := kernelfile.Read(filepath.Join("/sys/block", d.Name(), "loop/dio")); err != nil || strings.TrimSpace(string(dio)) != "1" {
		return nil, fmt.Errorf("the file system below %s does not let a loop device pass its page cache by; take another "+
			"place with -dir", dir)
	}
	if _, err := Command(ctx, "mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", d.device); err != nil {
		return nil, err
	}
	if _, err := Command(ctx, "mount", d.device, d.root); err != nil {
		return nil, err
	}
	return d, nil
}

// Remove takes down whatever there is of d. It is called when the context has ended, too.
func (d *Disk) Remove() error {
	ctx := context.Background()
	var all error
	if mounted, _ := Command(ctx, "findmnt", "-n", d.root); len(mounted) > 0 {
		all = errors.Join(all, d.unmount(ctx))
	}
	if d.device != "" {
		_, err := Command(ctx, "losetup", "-d", d.device)
		all = errors.Join(all, err)
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
	for range 20 {
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

// Describe says what is under it.
func (d *Disk) Describe() string {
	out, err := Command(context.Background(), "df", "--output=source", filepath.Dir(d.root))
	_, below, _ := strings.Cut(string(out), "\n")
	if err != nil {
		below = "an unknown device"
	}
	kernel, _ := kernelfile.Read("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("ext4 on a loop device with direct I/O, on %s; Linux %s", strings.TrimSpace(below),
		strings.TrimSpace(string(kernel)))
}

// Moved is how many bytes were read from the disk and written to it so far, by whomever.
func (d *Disk) Moved() (uint64, error) {
	text, err := kernelfile.Read("/sys/block/" + d.Name() + "/stat")
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

// Settle writes what is dirty and, if cold, drops all caches.
func (d *Disk) Settle(ctx context.Context, cold bool) error {
	if _, err := Command(ctx, "sync", "-f", d.root); err != nil {
		return err
	}
	if !cold {
		return nil
	}
	return DropCaches()
}

// DropCaches empties the page cache of what is clean.
func DropCaches() error {
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return fmt.Errorf("drop caches: %w", err)
	}
	return nil
}

// Command runs a small tool.
func Command(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, Tail(out))
	}
	return out, nil
}

// Tail returns the last lines of a program's output.
func Tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
