package foreign

import (
	"bytes"
	"os"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// open returns the detector of a device; nil where there are no counters, with the reason.
func open(info device.Info, opt Options) (detector, string) {
	if info.Medium == device.Memory {
		return nil, "The data is in memory, so no program waits for a device."
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
		return nil, unreadable(err)
	}
	return openDetector(d, interval(info.Medium), info, opt, "")
}

// disks are the kernel's statistics of the disks below, and of this process.
type disks struct {
	*diskwatch.Disks
	self *os.File // /proc/self/io; nil if it may not be read
	buf  [512]byte
}

func openDisks(stats []string) (*disks, error) {
	d, err := diskwatch.OpenDisks(stats...)
	if err != nil {
		return nil, err
	}
	self, _ := os.Open("/proc/self/io") // not readable for a process that is not dumpable
	return &disks{Disks: d, self: self}, nil
}

func (d *disks) close() {
	d.Close()
	if d.self != nil {
		d.self.Close()
	}
}

func (d *disks) own() diskwatch.Process { return diskwatch.Self() }

func (d *disks) cancelled() uint64 {
	if d.self == nil {
		return 0
	}
	text, err := diskwatch.ReadKernelFile(d.self, d.buf[:])
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("cancelled_write_bytes: "))
	v, _ := diskwatch.Number(rest)
	return v
}

func (d *disks) device() (diskwatch.Counters, error) { return d.Counters() }
