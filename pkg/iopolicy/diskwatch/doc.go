// Package diskwatch detects I/O of other processes on disks of Linux or macOS, for the gate of package iopolicy:
//
//	watcher, err := diskwatch.Watch("/srv/data") // any path on the disk
//	gate := iopolicy.New(iopolicy.Config{
//		Settings: iopolicy.DefaultSettings(), Watcher: watcher, Metering: iopolicy.Metering{Meter: diskwatch.Meter()},
//	})
//
// The gate polls a [Watcher] at the boundaries of its own operations. The Watcher compares what the disk has done with
// what this process, and cooperating ones, have submitted:
//
//   - Reads by a ratchet. The disk counts a read at completion, the process at submission. With the disk read first,
//     "disk minus own" is a lower bound of foreign reads, however the threads of this process race with the two
//     readings. Only a new maximum is foreign I/O.
//   - Reads, writes and flushes by gaps. If no own operation was in flight between two polls, the disk worked for
//     others. Read-ahead outlives its operation, so a gap counts from the first poll at which the disk was idle; where
//     only gaps show others, also after it has lasted long enough for own read-ahead to complete.
//   - Writes by budgets. The process counts a write when the page becomes dirty, the disk when it is written. Others
//     are seen when the disk writes more than is pending, or flushes while no own flush is in flight. The writeback
//     profile in profile.go, which was measured, bounds what file systems write by themselves after own changes.
//
// Where disk and process disagree about own reads (FUSE, ZFS, a caching layer), only gaps count. While this process
// also reads elsewhere, such as its own executable, others stay hidden until a gap; the Watcher asks the gate for gaps
// through iopolicy.GapRequester.
//
// Not visible: other machines that share the disk, disks with queue/iostats off, and writes that coincide with an own
// flush. A Watcher needs no privilege, starts no goroutine, and a Look costs some 4 µs. On macOS a Look asks IOKit,
// which costs more: the interval follows its cost. That half is tested with stand-ins and has never been run.
package diskwatch
