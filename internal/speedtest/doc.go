// Package speedtest measures the speed of this machine at each policy, in the units of a backup: compressing and
// opening frames, hashing, chunking and sealing, on one processor and on all. It also measures a disk through the gate
// of its device: reading a file in order and at random places, writing and flushing one.
//
// The data is the same on every machine (see corpus.go). Figures are medians of a few short runs: good for comparing
// policies and for finding the bottleneck of a backup, but too coarse to compare machines to the last percent. The
// caller applies the policies and provides the gate.
package speedtest
