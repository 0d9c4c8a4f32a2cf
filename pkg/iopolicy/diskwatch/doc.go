// Package diskwatch detects I/O of other processes on a disk of Linux or macOS, for the gate of package iopolicy:
//
//	watcher, err := diskwatch.Watch("/srv/data") // any path on the disk
//	gate := iopolicy.New(iopolicy.Config{
//		Settings: iopolicy.DefaultSettings(), Watcher: watcher, Metering: iopolicy.Metering{Meter: diskwatch.Meter()},
//	})
//
// The kernel counts completed I/O for each disk and submitted I/O for each process. [Watcher] subtracts the second from
// the first. It needs no privilege, starts no goroutine, and a Look costs some 4 µs. Where the kernel has no counters,
// such as on other systems, Watch returns [ErrUnsupported]. On macOS a Look asks IOKit, which costs more: the interval
// follows its cost. That half is tested with stand-ins and has never been run.
//
// A Watcher sees reads of others at any time, and their writes while the program has no operation in flight. For 41 s
// after own writes, which the kernel may write late, it sees foreign writes only if they exceed 1 MiB in 5 s. It does
// not see other machines that share the disk. It expects that the program uses this disk only: while the program also
// reads other devices, others are seen only between its own operations.
package diskwatch
