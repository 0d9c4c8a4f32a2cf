package diskwatch

// rusageInfo is struct rusage_info_v2 of sys/resource.h of macOS, which proc_pid_rusage fills in. read and written are
// ri_diskio_bytesread and ri_diskio_byteswritten: bytes of this process's threads, counted at submission
// (thread_update_io_stats, called by spec_strategy).
type rusageInfo struct {
	_             [16]byte   // ri_uuid
	_             [16]uint64 // times, wake-ups, memory, and those of children
	read, written uint64
}
