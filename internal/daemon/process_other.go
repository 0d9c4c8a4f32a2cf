//go:build !linux

package daemon

import "syscall"

// processGroup puts a child into a group of its own. A child outlives a service that is killed.
func processGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
