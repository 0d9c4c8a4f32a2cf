// Package ring submits many reads to the kernel by io_uring and waits for all of them. The kernel can then sort the
// requests of a device and merge neighbours.
package ring

import "errors"

// ErrMissing reports that io_uring is not available: before Linux 5.19, or disabled. The errno is wrapped beside it.
var ErrMissing = errors.New("no io_uring to be had")

// Read is one read from the beginning of an open file.
type Read struct {
	FD    int
	From  int    // offset in the shared buffer
	Len   int    // bytes wanted
	Flags uint32 // RWF_...
	N     int    // bytes read; fewer than Len at the end of the file, and sometimes elsewhere
	Err   error  // then N is 0
}

// ErrUnread reports that the kernel accepted no more reads, so this one was not made.
var ErrUnread = errors.New("the kernel took no more reads")
