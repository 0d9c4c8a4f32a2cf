//go:build !linux

package local

import "os"

// syncData makes f durable. On darwin Sync is F_FULLFSYNC, which flushes the cache of the disk.
func syncData(f *os.File) error { return f.Sync() }

// dropCache does nothing: there is no call for a file that is open for buffered writing.
func dropCache(*os.File) {}

func mostlyCached(*os.File, int64, int) bool { return true }

func dropRange(*os.File, int64, int) {}
