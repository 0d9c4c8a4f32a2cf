package misses

import (
	"fmt"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/pressure"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// watchDisk begins to watch the disks below the one that is mounted at root, as tidemark does under --medium.
func watchDisk(root, medium string, syncs func() (int, uint64)) (*pressure.Watcher, error) {
	info, err := device.Of(root)
	if err != nil {
		return nil, err
	}
	info.Medium = device.HDD
	if medium == "ssd" {
		info.Medium = device.SSD
	}
	opt := pressure.Options{Syncs: syncs}
	for _, name := range info.Disks {
		opt.Stats = append(opt.Stats, filepath.Join("/sys/block", name, "stat"))
	}
	w := pressure.Watch(info, opt)
	if mode, why := w.Mode(); mode == pressure.Blind {
		w.Close()
		return nil, fmt.Errorf("the sensor sees nothing of %v: %s", info.Disks, why)
	}
	return w, nil
}

// newGate makes a gate with a watcher and the kernel's numbers.
func newGate(name, medium string, w iopolicy.Watcher) *iopolicy.Gate {
	cfg := iopolicy.Config{
		Name: name, Medium: iopolicy.HDD, Settings: iopolicy.Default(), Watcher: w, Metering: iopolicy.Metering{Meter: pressure.Meter()},
	}
	if medium == "ssd" {
		cfg.Medium = iopolicy.SSD
	}
	return iopolicy.New(cfg)
}
