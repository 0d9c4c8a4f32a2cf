// Package stagebench measures each stage of a backup, a restore and a check by itself: `make bench`. Beside the time, which
// depends on the machine and its mood, every stage tells what does not: calls of the system for each object, memory taken
// for each object, operations of the gate, flushes for each GiB, pages of the local index for each blob, bytes hashed for
// each byte read. Those are what a change is judged by; see docs/performance.md.
//
// There is nothing here but benchmarks. How a stage compares with other programs is the business of internal/peerbench.
package stagebench
