// Package priority is the CPU side of an I/O policy, and the part of it that the kernel implements: policies below
// Standard lower the CPU priority and the I/O class of a process and all its threads, and use fewer workers. Important,
// Standard and Passive lower nothing. docs/adr/0009-cpu-side-of-a-policy.md has the reasons for the values.
//
//	policy     Linux, every thread                            macOS, the process    by its kernel alone
//	utility    nice 5,  SCHED_BATCH, I/O best-effort level 7   nice 5                nice 5, I/O policy utility
//	throttle   nice 10, SCHED_IDLE, I/O best-effort level 7    nice 10               background, I/O policy throttle
//
// Where SCHED_IDLE could not be left again, and for other programs, throttle is SCHED_BATCH. While threads compute for
// a backup, they alone are SCHED_IDLE: see Process.Compute.
//
// On macOS the I/O policy of the kernel is passive, under which it never sleeps, unless it is to carry the policy out.
// The macOS half was written from the kernel's sources and is tested with stand-ins; it has never been run.
//
// A Process records its priority when it is first examined and never exceeds it: a program under nice -n 19 stays
// there. Raising scheduling and I/O class at run time needs no privilege; raising the nice value needs root, and
// Applied reports a failure.
package priority
