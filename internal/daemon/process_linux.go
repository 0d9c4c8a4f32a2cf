package daemon

import "syscall"

// processGroup puts a child into a group of its own. When the service dies, the child is asked to end.
func processGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
