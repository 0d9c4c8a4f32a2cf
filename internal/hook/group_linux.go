package hook

import "syscall"

// ownGroup puts a command into a process group of its own. Its shell is asked to end when its supervisor is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
