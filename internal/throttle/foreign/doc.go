// Package foreign detects I/O of other processes on a device and names the processes with most I/O.
//
// Disks are watched by package diskwatch, to which this package adds what other runs of tidemark do there. Network file
// systems have only the counters of the mount: what moves while the job leaves it alone is foreign, and so is what
// exceeds the job's own by much. Response times of a server carry no information: docs/adr/0008-io-policy.md has the
// figures.
//
// Not visible: other virtual machines on the same disk and other clients of a server. The package reads /proc and /sys
// only, needs no privilege, and starts no goroutine or timer.
package foreign
