package diskwatch

import "github.com/tidemark-backup/tidemark/pkg/iopolicy"

// rusageInfo is struct rusage_info_v2 of sys/resource.h of macOS, which proc_pid_rusage fills in. read and written are
// ri_diskio_bytesread and ri_diskio_byteswritten: bytes of this process's threads, counted at submission
// (thread_update_io_stats, called by spec_strategy).
type rusageInfo struct {
	_             [16]byte   // ri_uuid
	_             [16]uint64 // times, wake-ups, memory, and those of children
	read, written uint64
}

// submitted returns the bytes of own. Where these cannot be read, it returns the operations of getrusage instead, as
// bytes of one page each, which is enough to detect I/O; zero if there is neither.
func submitted(own func() (iopolicy.Bytes, error), operations func() (in, out int64, err error)) iopolicy.Bytes {
	const page = 4096
	if bytes, err := own(); err == nil {
		return bytes
	}
	in, out, err := operations()
	if err != nil {
		return iopolicy.Bytes{}
	}
	return iopolicy.Bytes{Read: uint64(in) * page, Written: uint64(out) * page}
}
