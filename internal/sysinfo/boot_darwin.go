package sysinfo

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// ThisBoot returns the boot that the system runs since, identified by its time. When the clock is set, that time moves
// with it, so the same boot can get another ID.
func ThisBoot() (b Boot) {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil || at.Sec == 0 {
		return Boot{}
	}
	binary.BigEndian.PutUint64(b.ID[:], uint64(at.Sec))
	b.At = time.Unix(at.Sec, 0)
	return b
}
