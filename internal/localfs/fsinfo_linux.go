package localfs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/kernelfile"
	"github.com/tidemark-backup/tidemark/internal/localfs/fstype"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// FS tells about the file system of the directory. It reads the mount table: ask once per mount, not per directory.
//
// The name comes from the mount table, because the magic number of statfs does not tell devtmpfs from tmpfs, ext2 from
// ext4, or one FUSE file system from another. Without /proc the magic number must do, and a devtmpfs is called tmpfs.
func (d *Dir) FS() (FSInfo, error) {
	var fs unix.Statfs_t
	mount := uint64(0)
	err := d.door.once(iopolicy.Metadata, func() error {
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
	table, err := kernelfile.Read("/proc/self/mountinfo")
	if err == nil {
		info.Type = fstype.Mounted(table, st.MountID, st.Dev)
	}
	if info.Type == "" {
		info.Type = fstype.Magic(uint32(fs.Type))
	}
	info.classify()
	info.Mount = mount
	info.Dated = info.Dated && info.Mount != 0
	return info, nil
}

// mountNumber returns the number of the mount through which a file was opened that is never given to another one, 0 before
// Linux 6.8.
func mountNumber(fd int) uint64 {
	var sx unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &sx) })
	if err != nil || sx.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0
	}
	return sx.Mnt_id
}
