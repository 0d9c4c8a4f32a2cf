package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// disk is a file that is a disk: bound to a loop device, which reads and writes it without a page cache in between, with
// a file system of its own.
type disk struct {
	image, device, root string
	runtime             string // where programs keep what lies in memory: sockets, shared state
}

// makeDisk makes one of so many bytes in dir. The file is allocated at once, so that the file system below has nothing to
// do later; and ext4 initialises all tables now and not in the background.
func makeDisk(ctx context.Context, dir string, size int64) (_ *disk, err error) {
	d := &disk{image: filepath.Join(dir, "disk.img"), root: filepath.Join(dir, "disk")}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.remove())
		}
	}()
	if err := os.Mkdir(d.root, 0o755); err != nil {
		return nil, err
	}
	if d.runtime, err = os.MkdirTemp("/dev/shm", "policybench-"); err != nil {
		return nil, err
	}
	if _, err := command(ctx, "fallocate", "-l", strconv.FormatInt(size, 10), d.image); err != nil {
		return nil, fmt.Errorf("%w; is there room for %d GiB? -dir names another place, -size makes it smaller", err, size>>30)
	}
	out, err := command(ctx, "losetup", "--direct-io=on", "--find", "--show", d.image)
	if err != nil {
		return nil, err
	}
	d.device = strings.TrimSpace(string(out))
	if dio, err := os.ReadFile(filepath.Join("/sys/block", d.name(), "loop/dio")); err != nil || strings.TrimSpace(string(dio)) != "1" {
		return nil, fmt.Errorf("the file system below %s does not let a loop device pass its page cache by; take another "+
			"place with -dir", dir)
	}
	if _, err := command(ctx, "mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", d.device); err != nil {
		return nil, err
	}
	if _, err := command(ctx, "mount", d.device, d.root); err != nil {
		return nil, err
	}
	return d, nil
}

// remove takes down whatever there is of d. It is called when the context has ended, too.
func (d *disk) remove() error {
	ctx := context.Background()
	var all error
	if mounted, _ := command(ctx, "findmnt", "-n", d.root); len(mounted) > 0 {
		all = errors.Join(all, d.unmount(ctx))
	}
	if d.device != "" {
		_, err := command(ctx, "losetup", "-d", d.device)
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
func (d *disk) unmount(ctx context.Context) (err error) {
	for range 20 {
		if _, err = command(ctx, "umount", d.root); err == nil {
			return nil
		}
		if pause(ctx, 250*time.Millisecond) != nil {
			break
		}
	}
	return err
}

// name is the device as in /sys/block.
func (d *disk) name() string { return filepath.Base(d.device) }

// at is a path on the disk.
func (d *disk) at(parts ...string) string {
	return filepath.Join(append([]string{d.root}, parts...)...)
}

// describe says what is under it.
func (d *disk) describe() string {
	out, err := command(context.Background(), "df", "--output=source", filepath.Dir(d.root))
	_, below, _ := strings.Cut(string(out), "\n")
	if err != nil {
		below = "an unknown device"
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("ext4 on a loop device with direct I/O, on %s; Linux %s", strings.TrimSpace(below),
		strings.TrimSpace(string(kernel)))
}

// settle writes what is dirty and, if cold, drops all caches.
func (d *disk) settle(ctx context.Context, cold bool) error {
	if _, err := command(ctx, "sync", "-f", d.root); err != nil {
		return err
	}
	if !cold {
		return nil
	}
	return dropCaches()
}

func dropCaches() error {
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return fmt.Errorf("drop caches: %w", err)
	}
	return nil
}

// command runs a small tool.
func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(out))
	}
	return out, nil
}

// tail returns the last lines of a program's output.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// source is a tree that is backed up.
type source struct {
	random *rand.ChaCha8
	buffer []byte
}

// filler returns something that makes files, the same for the same seed.
func filler(seed uint64) *source {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &source{rand.NewChaCha8(key), make([]byte, 1<<20)}
}

// tree makes files of size bytes in all below root: three fifths in large files, three tenths in middling, the rest in
// small ones.
func (s *source) tree(ctx context.Context, root string, size int64) error {
	for _, kind := range []struct {
		name string
		each int64
		all  int64
	}{
		{"large", 48 << 20, size * 6 / 10}, {"middling", 600 << 10, size * 3 / 10}, {"small", 9 << 10, size / 10},
	} {
		if err := s.files(ctx, filepath.Join(root, kind.name), int(kind.all/kind.each)+1, kind.each); err != nil {
			return err
		}
	}
	return nil
}

// files makes n files of some size each, a hundred in a directory.
func (s *source) files(ctx context.Context, root string, n int, size int64) error {
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := filepath.Join(root, fmt.Sprintf("%04d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := s.file(filepath.Join(dir, fmt.Sprintf("%02d", i%100)), size); err != nil {
			return err
		}
	}
	return nil
}

// file makes one whose content nobody has and that compresses by a third.
func (s *source) file(path string, size int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size > 0 {
		piece := s.buffer[:min(size, int64(len(s.buffer)))]
		if _, err := s.random.Read(piece); err != nil {
			return err
		}
		for at := 0; at+4096 <= len(piece); at += 4096 {
			clear(piece[at : at+1400])
		}
		if _, err := f.Write(piece); err != nil {
			return err
		}
		size -= int64(len(piece))
	}
	return nil
}
