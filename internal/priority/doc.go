// Package priority is the CPU side of an I/O policy, and the part of it that the kernel can take over: policies below
// Standard lower the CPU priority and the I/O class of a process and all its threads, and use fewer workers. Important,
// Standard and Passive lower nothing. docs/adr/0009-cpu-side-of-a-policy.md tells why it is these values.
//
//	policy     Linux, every thread                             macOS, the process
//	utility    nice 5,  SCHED_BATCH, I/O best-effort level 7   nice 5, I/O policy utility
//	throttle   nice 10, SCHED_BATCH, I/O class idle            background, I/O policy throttle
//
// On macOS the I/O policy is the kernel's own, so Standard and Passive are handed to it as well. The macOS half was
// written from the kernel's published interface and compiles; it has never been run.
//
// A Process remembers what it was when it was found and never becomes better than that: who starts the program under
// nice -n 19 keeps it there. Going back up at run time works for scheduling and I/O class without any right; the nice
// value goes up only for root, and Applied says so.
//
// The package refuses to know what the process does, on which device, and when a policy changes.
package priority
