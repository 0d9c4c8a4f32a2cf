//go:build !linux

package sysinfo

// HidesTrusted is false: there are no attributes trusted.*.
func HidesTrusted() bool { return false }
