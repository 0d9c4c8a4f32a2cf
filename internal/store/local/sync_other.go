//go:build !linux

package local

import "os"

// syncData makes f durable; on darwin this is F_FULLFSYNC, which reaches the platter where fsync does not.
func syncData(f *os.File) error { return f.Sync() }

// dropCache has no equivalent for a file that is open for buffered writing.
func dropCache(*os.File) {}

// push has no equivalent: the flush that follows is the first that reaches the device.
func push(*os.File, int64, int64, bool) error { return nil }

// readAhead is left as it is: the system, told of the policy of this process, bounds what it reads.
func readAhead(*os.File, bool) {}

func mostlyCached(*os.File, int64, int) bool { return true }

func dropRange(*os.File, int64, int) {}
