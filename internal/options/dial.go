package options

import "time"

// Workers is how many goroutines of each kind a backup uses.
type Workers struct {
	Scanners    int           // directories scanned at once, inside one file system too
	Readers     int           // batches of files read at once
	Compressors int           // batches cut, hashed and compressed at once
	Uploads     int           // packs stored at once
	Threshold   time.Duration // data that has waited longer than this asks for one more reader
}

// dialRow is one row of IBM's table of RESOURCEUTILIZATION.
type dialRow struct {
	sessions  int // with the server
	producers int // compare what is there with what is stored
	consumers int // move data
	threshold int // seconds
}

// dialRows is the table, by value; row 0 is "unset". At 1 a single session does the work of both. Rows 0, 1, 5 and 10
// are in IBM's documentation; the others are from common knowledge among its users.
func dialRows() [11]dialRow {
	return [11]dialRow{
		{2, 1, 1, 30},
		{1, 1, 0, 45},
		{2, 1, 1, 45},
		{3, 1, 2, 45},
		{3, 1, 2, 30},
		{4, 2, 2, 30},
		{4, 2, 2, 20},
		{5, 2, 3, 20},
		{6, 2, 4, 20},
		{7, 3, 4, 20},
		{8, 4, 4, 10},
	}
}

// Dial maps a value of RESOURCEUTILIZATION, 0 (unset) to 10, to workers on a machine of cpu processors.
//
// IBM's producers are our scanners; there they are bound to a file system each, here they share one. Its consumers read,
// compress and send; here each of these steps has workers of its own: as many readers and uploads as consumers, and as
// many compressors, though not more than processors. At 1, where one session does everything, each step has one worker.
//
// Unset goes by the machine instead of IBM's two sessions: a scanner and a reader per processor, 2 to 8, since they wait
// for the disk most of the time; a compressor per processor, since these do not wait; 2 to 4 uploads, so that one is under
// way while the next pack is sealed.
func Dial(value, cpu int) Workers {
	cpu = max(cpu, 1)
	value = min(max(value, 0), 10)
	row := dialRows()[value]
	threshold := time.Duration(row.threshold) * time.Second
	if value == 0 {
		return Workers{
			Scanners:    min(max(cpu, 2), 8),
			Readers:     min(max(cpu, 2), 8),
			Compressors: min(cpu, 64),
			Uploads:     min(max(cpu/2, 2), 4),
			Threshold:   threshold,
		}
	}
	consumers := max(row.consumers, 1)
	return Workers{
		Scanners:    row.producers,
		Readers:     consumers,
		Compressors: min(consumers, cpu),
		Uploads:     consumers,
		Threshold:   threshold,
	}
}
