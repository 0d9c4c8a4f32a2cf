package target

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// diskQuota is struct if_dqblk of linux/quota.h.
type diskQuota struct {
	hard, soft     uint64 // in blocks of 1 KiB
	used           uint64 // bytes
	files, fewer   uint64
	usedFiles      uint64
	blocks, inodes uint64 // when grace ends
	valid          uint32
	_              uint32
}

// quotaOf asks for the quota of this user. The call is there from Linux 5.14 on; nil where there is none, where quotas are
// off, and where the file system is of another machine, whose free space mostly accounts for them.
func quotaOf(fd int) *quota {
	const (
		getQuota  = 0x800007 // Q_GETQUOTA
		ofUser    = 0        // USRQUOTA
		blockSize = 1024     // QIF_DQBLKSIZE
	)
	var q diskQuota
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), getQuota<<8|ofUser, uintptr(os.Getuid()),
		uintptr(unsafe.Pointer(&q)), 0, 0)
	if errno != 0 {
		return nil
	}
	limit := q.hard
	if limit == 0 {
		limit = q.soft
	}
	return &quota{used: q.used, limit: limit * blockSize}
}
