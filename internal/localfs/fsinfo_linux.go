package localfs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// FS returns information about the file system of the directory. It reads the mount table, so call it once per mount.
//
// The magic number of statfs cannot distinguish devtmpfs from tmpfs, ext2 from ext4, or FUSE file systems from each
// other. It is used only without /proc.
func (d *Dir) FS() (FSInfo, error) {
	var fs unix.Statfs_t
	mount := uint64(0)
	err := d.ioctx.do(iopolicy.Metadata, func() error {
		mount = mountNumber(d.fd)
		return unix.Fstatfs(d.fd, &fs)
	})
	if err != nil {
		return FSInfo{}, fmt.Errorf("stat file system: %w", err)
	}
	st, err := d.Fstat()
	if err != nil {
		return FSInfo{}, err
	}
	info := FSInfo{
		ReadOnly: fs.Flags&unix.ST_RDONLY != 0,
		ID:       uint64(uint32(fs.Fsid.Val[0]))<<32 | uint64(uint32(fs.Fsid.Val[1])),
	}
	table, err := sysinfo.ReadFile("/proc/self/mountinfo")
	if err == nil {
		info.Type = FindMount(table, st.MountID, st.Dev).Type
	}
	if info.Type == "" {
		info.Type = typeOfMagic(uint32(fs.Type))
	}
	info.classify()
	info.Mount = mount
	info.Dated = info.Dated && info.Mount != 0
	return info, nil
}

// mountNumber returns the unique number of the mount of fd; 0 before Linux 6.8.
func mountNumber(fd int) uint64 {
	var sx unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &sx) })
	if err != nil || sx.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0
	}
	return sx.Mnt_id
}
