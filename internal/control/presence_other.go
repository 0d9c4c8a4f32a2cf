//go:build !linux

package control

// suspended reports whether a signal has stopped a process, which is not known here.
func suspended(int) bool { return false }

// foreign returns a service of another user, which is not known here.
func foreign(string, int) (name string, pid int) { return "", 0 }
