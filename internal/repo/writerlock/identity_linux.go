package writerlock

import (
	"os"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// identity names the boot and the PID namespace of this process; "" if they are unknown.
func identity() string {
	boot, err := sysinfo.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}
