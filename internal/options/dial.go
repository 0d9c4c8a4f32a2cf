package options

import (
	"github.com/tidemark-backup/tidemark/internal/device"
)

// Workers is how many goroutines of each kind a backup uses.
type Workers struct {
	Scanners    int // directories scanned at once, inside one file system too
	Readers     int // batches of files read at once
	Compressors int // batches cut, hashed and compressed at once
	Uploads     int // packs stored at once
}

// dialRow is one row of IBM's table of RESOURCEUTILIZATION.
type dialRow struct {
	sessions  int // with the server
	producers int // compare what is there with what is stored
	consumers int // move data
}

// dialRows is the table, by value; row 0 is "unset". At 1 a single session does the work of both. Rows 0, 1, 5 and 10
// are in IBM's documentation; the others are from common knowledge among its users.
func dialRows() [11]dialRow {
	return [11]dialRow{
		{2, 1, 1},
		{1, 1, 0},
		{2, 1, 1},
		{3, 1, 2},
		{3, 1, 2},
		{4, 2, 2},
		{4, 2, 2},
		{5, 2, 3},
		{6, 2, 4},
		{7, 3, 4},
		{8, 4, 4},
	}
}

// Media is what a backup reads from and writes to. The zero value is for jobs without files, and for what nobody knows.
type Media struct {
	Source device.Medium // the slowest of the sources
	Target device.Medium
}

// Dial maps a value of RESOURCEUTILIZATION, 0 (unset) to 10, to workers on a machine of cpu processors. The media count
// only when it is unset: who gives a number gets its row of the table.
//
// IBM's producers are our scanners; there they are bound to a file system each, here they share one. Its consumers read,
// compress and send; here each of these steps has workers of its own: as many readers and uploads as consumers, and as
// many compressors, though not more than processors. At 1, where one session does everything, each step has one worker.
func Dial(value, cpu int, media Media) Workers {
	cpu = max(cpu, 1)
	value = min(max(value, 0), 10)
	row := dialRows()[value]
	if value == 0 {
		return auto(cpu, media)
	}
	consumers := max(row.consumers, 1)
	return Workers{
		Scanners:    row.producers,
		Readers:     consumers,
		Compressors: min(consumers, cpu),
		Uploads:     consumers,
	}
}

// auto goes by the machine instead of IBM's two sessions: eight scanners, and four readers per processor, 8 to 16, since
// they wait for the disk most of the time (docs/performance.md has what other numbers of scanners give); a compressor per
// processor, since these do not wait; 2 to 4 uploads, so that one is under way while the next pack is sealed.
//
// A disk that turns has one arm. What is scanned lies scattered anyway, and of two requests the disk takes the nearer one
// first; more would only keep the arm from the reader. Data lies in a row: read by one it comes at the full rate, while
// two readers of large files make it seek between them, which takes longer than the pieces they read. As a target it
// gets one pack at a time for the same reason; the next is sealed meanwhile.
//
// With another machine every request waits for its way there and back, and does so side by side with others at no cost:
// hence 8 to 16 scanners, 8 readers and all 4 uploads, however few processors there are. No more of the latter two: each
// reader fills buffers, and each upload holds a pack in memory.
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
