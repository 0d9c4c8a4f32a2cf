// Package bench measures what this machine does at each policy, in the units that a backup is made of: compressing and
// opening frames, hashing, cutting and sealing, on one processor and on all; and a disk, by reading a file in order and at
// random places and by writing and flushing one, through the gate of its device.
//
// The data is the same on every machine (see corpus.go). Figures are medians of a few short runs: good for comparing
// policies and for finding what holds a backup up, not for comparing machines to the last percent.
//
// It refuses to know what a policy does to the process and which gate belongs to a directory: its caller says so for
// each policy. How results are shown is not its business either.
package bench
