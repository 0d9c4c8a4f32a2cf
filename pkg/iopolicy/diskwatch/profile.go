package diskwatch

import "time"

// profile is what a file system writes by itself after changes. Measured with Linux 6.18 on loop devices with a write
// cache:
//
// ext4 commits a change without a flush 4.8 to 6 s later with 2 writes and 2 flushes (264 KiB for the access times of
// 1000 files, 28 KiB for one new file). A flush commits all earlier changes. Metadata blocks follow 30 to 36 s after
// the change, without a flush (24 KiB after six packs of 16 MiB, 256 KiB for 1000 access times). Half a second later
// comes one flush without a write, and the head of the journal, less than 4 KiB.
//
// xfs writes 766 KiB with 3 flushes within a second after 1000 access times, 42 KiB with 2 flushes 2 s after one new
// file, and 49 KiB without a flush 17 s after six packs. It covers the log at the next tick of a 30 s timer: 1 KiB, 2
// flushes.
//
// btrfs commits one transaction every 30 s, also after flushes of files: 936 KiB, 61 writes and 2 flushes after six
// packs, with 32 KiB read by a kernel thread.
//
// Other file systems have the widest bounds of writes, and none of reads: with that of btrfs, none of 160 single reads
// of others was seen beside own packs.
type profile struct {
	after, until time.Duration // age of the oldest change at a commit
	every        time.Duration // between two commits
	flushes      uint64        // of one commit
	bytes        uint64        // of one commit
	reads        uint64        // bytes that kernel threads may read for a commit or for own writes
	flushSettles bool          // an own flush commits all earlier changes
	memory       time.Duration // after the last change nothing is written any more
}

func profileOf(fs string) profile {
	h := profile{until: 36 * time.Second, every: 5 * time.Second, flushes: 4, bytes: 8 << 20, memory: 100 * time.Second}
	switch fs {
	case "ext2", "ext3", "ext4":
		h.after, h.until, h.every, h.flushes, h.bytes = 4*time.Second, 8*time.Second, 4*time.Second, 2, 1<<20
		h.flushSettles, h.memory = true, 45*time.Second
	case "xfs":
		h.every, h.bytes, h.flushSettles = 25*time.Second, 2<<20, true
	case "btrfs":
		h.every, h.memory, h.reads = 25*time.Second, 45*time.Second, 256<<10
	case "apfs": // not measured
		h.reads = 256 << 10
	}
	return h
}
