package diskwatch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Disks are the statistics files of some disks. They stay open: opening one costs five times as much as reading it.
type Disks struct {
	files   []*os.File
	process *os.File // /proc/self/io; nil if it may not be read
	buf     [512]byte
}

// OpenDisks opens files such as /sys/block/sda/stat.
func OpenDisks(stats ...string) (*Disks, error) {
	if len(stats) == 0 {
		return nil, ErrNoDisk
	}
	d := &Disks{}
	for _, name := range stats {
		if on, err := os.ReadFile(filepath.Join(filepath.Dir(name), "queue/iostats")); err == nil &&
			strings.TrimSpace(string(on)) == "0" {
			d.Close()
			return nil, fmt.Errorf("%s/queue/iostats is 0; write 1 to it", filepath.Dir(name))
		}
		f, err := os.Open(name)
		if err != nil {
			d.Close()
			return nil, err
		}
		d.files = append(d.files, f)
	}
	d.process, _ = os.Open("/proc/self/io") // not readable for a process that is not dumpable
	return d, nil
}

// Close closes the files.
func (d *Disks) Close() {
	for _, f := range d.files {
		f.Close()
	}
	if d.process != nil {
		d.process.Close()
	}
}

func (d *Disks) count() int { return len(d.files) }

// Pace returns usual: a poll costs some 4 µs.
func (d *Disks) Pace(usual time.Duration) time.Duration { return usual }

// Counters returns the sums over the disks. It is not safe for concurrent use.
func (d *Disks) Counters() (sum Counters, err error) {
	for _, f := range d.files {
		text, err := readKernelFile(f, d.buf[:])
		if err == nil {
			err = sum.add(text)
		}
		if err != nil {
			return Counters{}, fmt.Errorf("read %s: %w", f.Name(), err)
		}
	}
	return sum, nil
}

func (d *Disks) self() Process { return Self() }

func (d *Disks) cancelled() uint64 {
	if d.process == nil {
		return 0
	}
	text, err := readKernelFile(d.process, d.buf[:])
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("cancelled_write_bytes: "))
	v, _ := Number(rest)
	return v
}

// readKernelFile reads a small file of /proc or /sys again from its start.
func readKernelFile(f *os.File, buf []byte) ([]byte, error) {
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:n], nil
}

// Self returns the counters of this process. Unlike /proc/self/io, getrusage leaves out children that were waited for.
func Self() Process {
	u := usage(unix.RUSAGE_SELF)
	return Process{Read: uint64(u.Inblock) * sector, Dirtied: uint64(u.Oublock) * sector, Faults: uint64(u.Majflt)}
}

func usage(of int) (u unix.Rusage) {
	if unix.Getrusage(of, &u) != nil {
		return unix.Rusage{}
	}
	return u
}

// threadMeter reads the counters of the calling thread.
type threadMeter struct{}

// Meter returns the meter of this system; nil: there is none. On Linux it reads the counters of the calling thread:
// reads at submission, read-ahead and metadata included; writes when a page becomes dirty, or at submission of direct
// I/O. They are those of /proc/thread-self/io at half the price. CIFS counts no reads there.
func Meter() iopolicy.Meter { return threadMeter{} }

func (threadMeter) Submitted() iopolicy.Bytes {
	u := usage(unix.RUSAGE_THREAD)
	return iopolicy.Bytes{Read: uint64(u.Inblock) * sector, Written: uint64(u.Oublock) * sector}
}

// statOf returns the statistics file of the disk that holds a path: the whole disk of a partition.
func statOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", err
	}
	dev := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	dir, err := filepath.EvalSymlinks(dev)
	if err != nil {
		return "", ErrNoDisk
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "stat"), nil
}

// Watch watches the disk that holds a path. The error is ErrNoDisk where the kernel shows no disk: file systems in
// memory, on other machines, and those with device numbers of their own, such as btrfs and ZFS. OpenDisks and New watch
// several.
func Watch(path string) (*Watcher, error) {
	stat, err := statOf(path)
	if err != nil {
		return nil, fmt.Errorf("find the disk of %s: %w", path, err)
	}
	d, err := OpenDisks(stat)
	if err != nil {
		return nil, fmt.Errorf("watch the disk of %s: %w", path, err)
	}
	return New(d, Options{FS: fileSystem(path)})
}

// fileSystem returns the name of the file system of a path, if its late writes are known; else "".
func fileSystem(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	}
	return ""
}
