//go:build !linux

package local

import "os"

// syncData makes f durable; on darwin this is F_FULLFSYNC, which reaches the platter where fsync does not.
func syncData(f *os.File) error { return f.Sync() }

// dropCache has no equivalent for a file that is open for buffered writing.
func dropCache(*os.File) {}

func mostlyCached(*os.File, int64, int) bool { return true }

func dropRange(*os.File, int64, int) {}
