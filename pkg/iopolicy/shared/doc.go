// Package shared is what processes on one machine tell one another about the I/O they do on one device: when each tier
// was last at the device, how much of it is there now, and who took the slot of this I/O period. It implements
// [iopolicy.Peers] by a file that all of them map into their memory; a call costs some tens of nanoseconds and no system
// call.
//
// It refuses to know what a device is (the caller has a key for it), what a window is, and who waits for whom: that is
// package iopolicy. It does not protect one user from himself: who may write to the file may lie about his own I/O, as he
// may do I/O. It does promise that no content of the file, no death of a process and no change of the file by others
// makes a program panic, block, or wait longer than one period for its next slot.
//
// # The file
//
// One file per device lies in a directory that only its owner may enter (see [RuntimeDir]): mode 0700, the file 0600,
// no symbolic links. Processes of different users do not share. The name is the key with everything but letters,
// digits and ".@-" replaced by "_", at most 40 characters of it, then "-", 16 hexadecimal digits of the SHA-256 of the
// key, and ".v1"; another layout is another version and so another file, lest two versions of a program replace each
// other's. Words are 8 bytes, aligned, in the byte order of the machine, and read and written by atomic operations
// only. Times are nanoseconds of the clock that package time measures by (Linux: CLOCK_MONOTONIC, macOS:
// CLOCK_UPTIME_RAW); 0 is never.
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
//	   512      8  used: bit i tells that slot i was given to somebody
//	   520    120  zero
//	   640 64×128  slots, one for each process
//
// A slot:
//
//	offset  bytes  what
//	     0      8  generation: odd while the three words after it change
//	     8      8  process id
//	    16      8  when that process started, as its system counts (Linux: clock ticks since boot, macOS: microseconds)
//	    24      8  manner + 256 × policy; manner 0: free, 1: a gate's, 2: announced by another process, 3: announced,
//	               and lives as long as the process it names
//	    32      8  bytes read from other devices
//	    40      8  bytes written to other devices
//	    48     16  zero
//	    64    4×8  I/O of tier 0..3 on the device now
//	    96     32  zero
//
// The header is never changed. A file with another header or size is not understood and is replaced: by a new one under
// a temporary name, renamed over it while the directory is locked by flock, so that all who come at once agree. Who
// has the old one mapped notices within a second of use that it has no name any more, or was cut, and goes over to the
// new one with what it has in flight. A mapping whose file was truncated faults when it is touched; the fault is caught,
// and until the file is there again the process goes on by itself.
//
// # Who is alive
//
// On Linux, whoever holds a slot of manner 1 or 2 has a write lock on its first byte by an open file description
// (F_OFD_SETLK), which the kernel takes back at death, so neither a reused process id nor a crash leaves anything behind:
// what is not locked counts for nothing and is given to the next. On macOS, and for manner 3, a slot lives while there is
// a process of that id that started at that time, and slots are given out under flock on the file. That a slot is alive
// is believed for 10 ms before it is asked again. If all 64 slots are taken, a process works without: its edges and slots
// of time count, the I/O it has in flight and its name do not.
//
// # Slots of time
//
// A tier has its next slot one period after its own last one, or that of a worse tier, because I/O of a worse tier starts
// the period of the better ones as well. Between slots of different tiers lies at least the spacing, which is the period
// of tier 1. One compare-and-swap of the word turn decides who gets a slot; before it, the start of the tier that turn
// names is written down, so that a process that dies in between leaves nothing undone. If several tiers were held up by
// the spacing, the next is the first of those that want, in the order 3, 2, 1, 3 after the last; it forfeits its turn by
// not coming within a quarter of the spacing. Within a tier whoever asks first after the slot opens has it.
//
// # Time
//
// Each process pairs a time.Time with the clock when it attaches and converts by the difference, so that times come back
// exactly as they were given; two processes agree within the time it takes to read both clocks, some 100 ns. Neither clock
// runs while the machine is suspended, nor do the timers of Go: windows and periods go on afterwards where they were, and
// nobody has missed a slot. Times at or before boot, and times more than a millisecond in the future, are taken for
// never, and are written over by the next that is true. Processes in different time namespaces do not understand each
// other's times and ignore them, or see windows that are over.
//
// # Limits
//
// The file should lie in memory (/run is); in the directory for temporary files of macOS the system writes the changed
// pages to disk from time to time. An entry that was announced and detached is lost when the file is replaced.
package shared
