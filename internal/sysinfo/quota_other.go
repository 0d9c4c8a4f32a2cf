//go:build !linux

package sysinfo

import "runtime"

// quota: only Linux bounds the processors of a group of processes.
func quota() (limit float64, limited bool) { return 0, false }

// UsableCPUs returns on how many processors this program runs.
func UsableCPUs() int { return runtime.NumCPU() }
