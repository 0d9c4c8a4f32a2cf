// Package ring hands the kernel many reads at once and waits for all of them. That lets it do what it cannot when it is
// asked for one file after the other: put the requests of a device in order, and make one of those that are neighbours.
//
// The package knows descriptors and memory. It refuses to know what a file is, what may be read, and what is done where
// the kernel has no io_uring, or keeps it from us: then New fails, and whoever asked reads file by file.
package ring

import "errors"

// ErrMissing: this system has no io_uring that we could use: it is not Linux 5.19 or newer, or it is switched off for us.
// The kernel's own word is wrapped beside it.
var ErrMissing = errors.New("no io_uring to be had")

// Read is one of several reads: from the beginning of an open file into a part of the memory that all of them share.
type Read struct {
	FD    int
	From  int    // where in the memory
	Len   int    // bytes wanted
	Into  []byte // of Len bytes, outside the heap: memory to read into instead; nil: there
	Flags uint32 // RWF_...
	N     int    // bytes read; fewer than wanted at the end of the file, and also otherwise
	Err   error  // then N is 0; ErrUnread: the kernel was not even asked
}

// ErrUnread: the kernel took no more reads at the moment, so this one was not made.
var ErrUnread = errors.New("the kernel took no more reads")
