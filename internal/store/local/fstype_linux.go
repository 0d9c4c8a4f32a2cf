package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// keepsInodes reports whether the file system of an open file keeps inode numbers, across mounts too. Network file
// systems, FUSE, overlays and FAT may return another number for the same file later.
func keepsInodes(fd int) (bool, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return false, os.NewSyscallError("fstatfs", err)
	}
	const zfs = 0x2fc12fc1
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.BCACHEFS_SUPER_MAGIC, unix.TMPFS_MAGIC, zfs:
		return true, nil
	}
	return false, nil
}

// mountID returns the number of the mount of an open folder; 0 before Linux 5.8. From Linux 6.8 on it is unique.
func mountID(fd int) (uint64, error) {
	var sx unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	err := retryEINTR(func() error {
		return unix.Statx(fd, "", flags, unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE, &sx)
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 4.11, or filtered in a container
		return 0, nil
	}
	return sx.Mnt_id, os.NewSyscallError("statx", err)
}
