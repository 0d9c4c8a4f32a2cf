// Package shared shares state about the I/O on one device between processes of one user: when each tier was last at the
// device, how much of its I/O is in flight, and which tier took the slot of the present I/O period. It implements
// [iopolicy.Peers] and [iopolicy.SlotLedger] with a file that all processes map into memory. A call costs some tens of
// nanoseconds and no system call.
//
// The caller supplies a key for the device. A user can write false values into the file, as that user can also do I/O.
// No content of the file and no death of a process makes a program panic, block, or wait for its next slot longer than
// one period.
//
// # The file
//
// Each device has one file in a directory that only its owner may enter (see [RuntimeDir]): directory mode 0700, file
// mode 0600, no symbolic links. Processes of different users do not share. The name is the key with everything but
// letters, digits and ".@-" replaced by "_", at most 40 characters of it, then "-", 16 hexadecimal digits of the
// SHA-256 of the key, and ".v1". Another layout has another version and so another file, so two versions of a program
// do not replace each other's files. Words are 8 bytes, aligned, in the byte order of the machine, and accessed by
// atomic operations only. Times are nanoseconds of the clock that package time measures by (Linux: CLOCK_MONOTONIC,
// macOS: CLOCK_UPTIME_RAW); 0 is never.
//
//	offset  bytes  what
//	     0      8  magic "TMIOPEER"
//	     8      8  version, 1
//	    16      8  size of the file, 8832
//	    24     32  SHA-256 of the identity of the boot
//	    56     32  SHA-256 of the key
//	    88     40  zero
//	   128   4×64  edge of tier 0..3: when I/O of the tier last began or ended; rises only. 56 bytes of each unused
//	   384      8  turn: time of the newest slot × 4 + the tier that took it
//	   392    4×8  start of tier 0..3: when its I/O period began
//	   424    4×8  want of tier 0..3: when one was last refused a slot only because another tier had just had one
//	   456     56  zero
//	   512      8  used: bit i is set while slot i is assigned
//	   520    120  zero
//	   640 64×128  slots, one for each process
//
// A slot:
//
//	offset  bytes  what
//	     0      8  generation: odd while the three words after it change
//	     8      8  process id
//	    16      8  when that process started, as its system counts (Linux: clock ticks since boot, macOS: microseconds)
//	    24      8  kind + 256 × policy; kind 0: free, 1: a gate, 2: announced by another process, 3: announced, and
//	               alive as long as the process that it names
//	    32      8  bytes read from other devices
//	    40      8  bytes written to other devices
//	    48     16  zero
//	    64    4×8  I/O of tier 0..3 on the device now
//	    96     32  zero
//
// The header never changes. A file with another header or size is replaced by a new one, renamed over it while the
// directory is locked by flock, so that processes that start at once agree. A process that has the old file mapped
// notices within a second of use that it was unlinked, and moves to the new one with its I/O in flight. No program may
// shorten a file in place: touching the mapping of a truncated file is a fault that ends the process. Only the same
// user can do that, by hand.
//
// # Liveness
//
// On Linux, the owner of a slot of kind 1 or 2 holds a write lock on its first byte by an open file description
// (F_OFD_SETLK). The kernel releases it at death, so neither a reused process ID nor a crash leaves state behind: a
// slot without a lock does not count and is reassigned. On macOS, and for kind 3, a slot is alive while a process with
// that ID and start time exists; slots are assigned under flock on the file. Liveness is cached for 10 ms. If all 64
// slots are taken, a process works without one: its edges and reserved slots count, its I/O in flight and its name do
// not.
//
// # Slots of time
//
// A tier has its next slot one period after its own last one, or that of a worse tier, since I/O of a worse tier also
// starts the period of better ones. Slots of different tiers are at least the spacing apart, the period of tier 1. One
// compare-and-swap of the word turn assigns a slot; before it, the start of the tier that turn names is written, so
// that a process that dies in between leaves nothing undone. If the spacing delayed several tiers, the next is the
// first of those that want, in the order 3, 2, 1, 3 after the last; it forfeits its slot after a quarter of the
// spacing. Within a tier, the first process to ask after the slot opens has it.
//
// # Time
//
// Each process pairs a time.Time with the clock when it attaches and converts by the difference, so that times return
// exactly as they were given; two processes agree within the time to read both clocks, some 100 ns. Neither the clocks
// nor Go's timers run while the machine is suspended, so windows and periods continue afterwards. Times at or before
// boot, and more than a millisecond in the future, count as never and are overwritten by the next valid one. Processes
// in different time namespaces ignore each other's times, or see windows that are over.
//
// # Limits
//
// The file should be in memory (/run is); in the temporary directory of macOS the system writes the changed pages to
// disk from time to time. An entry that was announced and detached is lost when the file is replaced.
package shared
