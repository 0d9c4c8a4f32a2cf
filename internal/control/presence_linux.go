package control

import (
	"bytes"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// suspended reports whether a signal such as SIGSTOP has stopped a process, or a debugger.
func suspended(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return err == nil && found && len(rest) > 0 && (rest[0] == 'T' || rest[0] == 't')
}

// foreign returns a service of another user; pid 0: there is none.
func foreign(proc string, uid int) (name string, pid int) {
	processes, _ := os.ReadDir(proc)
	for _, process := range processes {
		dir := filepath.Join(proc, process.Name())
		content, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(string(content), "\x00")
		if err != nil || filepath.Base(args[0]) != "tidemark" || len(args) < 2 || args[1] != "daemon" {
			continue
		}
		info, err := os.Lstat(dir)
		if err != nil {
			continue // it has ended
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(owner.Uid) == uid {
			continue
		}
		name = strconv.Itoa(int(owner.Uid))
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		if pid, err = strconv.Atoi(process.Name()); err == nil {
			return name, pid
		}
	}
	return "", 0
}
