// Package pressure tells whether somebody else uses a device now, and who.
//
// A Watcher is asked by the gate of a device at the boundaries of its own operations. It compares what the device has
// done with what this process, and others that cooperate with it, have had submitted:
//
//   - Reads by a ratchet. The device counts a read when it is complete, the process when it is submitted. So if the
//     device is asked first, "device minus own" is never more than what others have read, however the threads of this
//     process race with the two questions. Only when it exceeds its own maximum has somebody else read.
//   - Reads, writes and flushes by gaps. When no own operation began or was there between two looks, whatever the device
//     did was not for them. Read-ahead outlives the operation that asked for it, so a gap counts from the first look at
//     which the device was idle; or, while only gaps can tell, from when it has lasted so long that nothing of our own can
//     be on its way any more, since who uses a device without a pause leaves it no idle moment.
//   - Writes by budgets. The process is told of a write when the page gets dirty, the device writes it later. Others are
//     seen when the device writes more than is pending, or flushes while no own operation waits for a flush. What file
//     systems do by themselves after own changes (commits of a journal, inode tables) is told by a table of habits,
//     which was measured; see habits.go.
//
// Where device and process do not agree on the own reads (FUSE, ZFS, a layer with a cache), only gaps count; and what this
// process reads elsewhere, such as its own pages, is a debt that hides others until a gap shows what it comes to. Gapper
// tells the gate that it must make some, which get longer while the device is not idle in them. For other machines there are only the counters of the mount. The time that a server takes
// for an answer tells nothing: docs/adr/0008-io-policy.md has the figures.
//
// It cannot see other virtual machines on the same disk, other clients of a server, I/O on disks whose statistics are off
// (queue/iostats), and what coincides with an own flush. It looks into /proc and /sys only, needs no privilege, starts no
// goroutine and no timer, and refuses to know what a sighting leads to.
package pressure
