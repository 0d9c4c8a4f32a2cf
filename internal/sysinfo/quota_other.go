//go:build !linux

package sysinfo

// quota: only Linux bounds the processors of a group of processes.
func quota() (limit float64, limited bool) { return 0, false }
