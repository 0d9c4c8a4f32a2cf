// Package foreign detects I/O of other processes on a device and names the processes with most I/O.
//
// The gate of a device polls a Watcher at the boundaries of its own operations. The Watcher compares what the device
// has done with what this process, and cooperating ones, have submitted:
//
//   - Reads by a ratchet. The device counts a read at completion, the process at submission. With the device read
//     first, "device minus own" is a lower bound of foreign reads, however the threads of this process race with the
//     two readings. Only a new maximum is foreign I/O.
//   - Reads, writes and flushes by gaps. If no own operation was in flight between two polls, the device worked for
//     others. Read-ahead outlives its operation, so a gap counts from the first poll at which the device was idle;
//     where only gaps show others, also after it has lasted long enough for own read-ahead to complete.
//   - Writes by budgets. The process counts a write when the page becomes dirty, the device when it is written. Others
//     are seen when the device writes more than is pending, or flushes while no own flush is in flight. The writeback
//     profile in profile.go, which was measured, bounds what file systems write by themselves after own changes.
//
// Where device and process disagree about own reads (FUSE, ZFS, a caching layer), only gaps count. While this process
// also reads elsewhere, such as its own executable, others stay hidden until a gap; the Watcher asks the gate for gaps
// through iopolicy.GapRequester. Network file systems have only the counters of the mount. Response times of a server
// carry no information: docs/adr/0008-io-policy.md has the figures.
//
// Not visible: other virtual machines on the same disk, other clients of a server, disks with queue/iostats off, and
// writes that coincide with an own flush. The package reads /proc and /sys only, needs no privilege, and starts no
// goroutine or timer.
package foreign
