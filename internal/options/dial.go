package options

import (
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Workers is how many goroutines of each kind a backup uses.
type Workers struct {
	Scanners    int // directories scanned concurrently, also within one file system
	Readers     int // batches of files read concurrently
	Compressors int // batches chunked, hashed and compressed concurrently
	Uploads     int // packs stored concurrently
}

// Media are the media that a backup reads and writes. The zero value means unknown, or a job without files.
type Media struct {
	Source device.Medium // the slowest of the sources
	Target device.Medium
}

// WorkersFor maps a value of RESOURCEUTILIZATION, 0 (unset) to 10, to workers on a machine of cpu processors. The media
// matter only if it is unset.
//
// IBM's producers correspond to scanners. IBM's consumers read, compress and send; here each of these steps has its own
// workers: as many readers and uploads as consumers, and as many compressors, but not more than processors. At 1, where
// IBM's client has one session for everything, each step has one worker.
func WorkersFor(value, cpu int, media Media) Workers {
	cpu = max(cpu, 1)
	value = min(max(value, 0), 10)
	if value == 0 {
		return auto(cpu, media)
	}
	producers := [...]int{1: 1, 1, 1, 1, 2, 2, 2, 2, 3, 4}[value]
	consumers := [...]int{1: 1, 1, 2, 2, 2, 2, 3, 4, 4, 4}[value] // at 1, IBM has a single session
	return Workers{
		Scanners:    producers,
		Readers:     consumers,
		Compressors: min(consumers, cpu),
		Uploads:     consumers,
	}
}

// auto chooses workers by the machine: 8 scanners and 4 readers per processor, 8 to 16, since they mostly wait for the
// disk (docs/measurements/2026-11-performance.md has measurements of the scanners); a compressor per processor, since
// these do not wait; 2 to 4 uploads, so that the next pack is sealed during an upload.
//
// A rotational disk has one arm. Inodes are scattered, and of two requests the disk serves the nearer one first; more
// scanners would only delay the reader. File data is contiguous: one reader gets the full rate, while two make the disk
// seek between them. As a target it gets one pack at a time for the same reason.
//
// Requests to another machine mostly wait for the network, in parallel at no cost: 8 to 16 scanners, 8 readers and 4
// uploads, whatever the number of processors. More readers or uploads would take memory for buffers and packs.
func auto(cpu int, media Media) Workers {
	w := Workers{
		Scanners:    8,
		Readers:     min(max(4*cpu, 8), 16),
		Compressors: min(cpu, 64),
		Uploads:     min(max(cpu/2, 2), 4),
	}
	switch media.Source {
	case device.HDD:
		w.Scanners, w.Readers = 2, 1
	case device.Remote:
		w.Scanners, w.Readers = min(max(2*cpu, 8), 16), 8
	case device.SSD, device.Memory, device.Unknown:
	}
	switch media.Target {
	case device.HDD:
		w.Uploads = 1
	case device.Remote:
		w.Uploads = 4
	case device.SSD, device.Memory, device.Unknown:
	}
	return w
}

// Ceilings below Standard. Operations in flight when others open a window cannot be recalled, so the others' first one
// waits behind all of them: fewer and smaller ones shorten that. Readers have the largest requests, and eight of them
// read cold small files as fast as 32, while a machine of four processors would use sixteen. Scanners and uploads are
// only cut where the user asked for more: a scanner has one small request in flight, and over a network, where each
// waits for a round trip, fewer would cost time on an idle line.
const (
	mostScanners = 16
	mostReaders  = 8
	mostUploads  = 4
)

// Cap returns how many workers a job may use at most under a policy on a machine of cpu processors: w from Standard
// on, and otherwise at most the ceilings above. They are where an idle machine gains nothing from more, so an
// undisturbed job takes no longer. A number of 0 or less stays as it is.
func (w Workers) Cap(p iopolicy.Policy, cpu int) Workers {
	if p.Tier() <= iopolicy.Standard.Tier() {
		return w
	}
	return Workers{
		Scanners:    min(w.Scanners, mostScanners),
		Readers:     min(w.Readers, mostReaders),
		Compressors: min(w.Compressors, max(cpu, 1)),
		Uploads:     min(w.Uploads, mostUploads),
	}
}
