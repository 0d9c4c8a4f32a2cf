//go:build !linux

package hook

import "syscall"

// ownGroup puts a command into a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
