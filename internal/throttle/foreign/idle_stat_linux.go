package foreign

import (
	"io/fs"
	"syscall"
	"time"
)

// lastRead returns the time of the last input at a terminal, its access time.
func lastRead(info fs.FileInfo) time.Time {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Now()
	}
	return time.Unix(s.Atim.Unix())
}
