package pressure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/kernelfile"
)

// open finds out what can be watched of a device. A nil judge is blind, and why tells why.
func open(info device.Info, opt Options) (judge, string) {
	if info.Medium == device.Memory {
		return nil, "The data is in memory, where nobody has to wait for a device."
	}
	if info.Medium == device.Remote {
		j, err := openMount(info.FS, opt)
		if err != nil {
			return nil, "What others on this machine do at the server cannot be seen: " + err.Error() + "."
		}
		return j, ""
	}
	d, err := openDisks(opt.Stats)
	if err != nil {
		return nil, "The statistics of the device cannot be read: " + err.Error() + "."
	}
	var src source = d
	if g := openGroup(d, opt, "/proc", "/sys/fs/cgroup"); g != nil {
		src, opt.Elsewhere = g, nil
	}
	l, err := newLocal(src, opt, interval(info.Medium), info.FS)
	if err != nil {
		src.close()
		return nil, "The statistics of the device cannot be read: " + err.Error() + "."
	}
	if info.Indirect {
		l.trust.giveUp("Somebody else reads the device for us")
	}
	return l, ""
}

// disks are the statistics of the kernel, kept open: opening them costs five times as much as reading.
type disks struct {
	stats []*os.File
	self  *os.File // /proc/self/io; nil if it may not be read
	buf   [512]byte
}

func openDisks(stats []string) (*disks, error) {
	if len(stats) == 0 {
		return nil, errors.New("it is on no disk that the kernel shows")
	}
	d := &disks{}
	for _, name := range stats {
		if on, err := kernelfile.Read(filepath.Join(filepath.Dir(name), "queue/iostats")); err == nil && strings.TrimSpace(string(on)) == "0" {
			d.close()
			return nil, fmt.Errorf("%s/queue/iostats is 0; write 1 to it", filepath.Dir(name))
		}
		f, err := os.Open(name)
		if err != nil {
			d.close()
			return nil, err
		}
		d.stats = append(d.stats, f)
	}
	d.self, _ = os.Open("/proc/self/io") // a process that is not dumpable may not
	return d, nil
}

func (d *disks) close() {
	for _, f := range d.stats {
		f.Close()
	}
	if d.self != nil {
		d.self.Close()
	}
}

func (d *disks) device() (sum counts, err error) {
	for _, f := range d.stats {
		text, err := d.read(f)
		if err != nil {
			return counts{}, err
		}
		if err := addStat(&sum, text); err != nil {
			return counts{}, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return sum, nil
}

// read returns the text of a file of the kernel. It does not go through the runtime's poller, which these files have no
// use for.
func (d *disks) read(f *os.File) ([]byte, error) {
	n, err := f.ReadAt(d.buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return d.buf[:n], nil
}

// own asks getrusage, which counts as /proc/self/io does but leaves out the children that were waited for.
func (d *disks) own() tally {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return tally{}
	}
	return tally{read: uint64(u.Inblock) * sector, dirtied: uint64(u.Oublock) * sector, faults: uint64(u.Majflt)}
}

func (d *disks) cancelled() uint64 {
	if d.self == nil {
		return 0
	}
	text, err := d.read(d.self)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("cancelled_write_bytes: "))
	v, _ := number(rest)
	return v
}
