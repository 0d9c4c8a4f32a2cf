package localfs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// FS returns information about the file system of the directory. Call it once per mount.
func (d *Dir) FS() (FSInfo, error) {
	var fs unix.Statfs_t
	if err := d.ioctx.do(iopolicy.Metadata, func() error { return unix.Fstatfs(d.fd, &fs) }); err != nil {
		return FSInfo{}, fmt.Errorf("stat file system: %w", err)
	}
	info := FSInfo{
		Type:     unix.ByteSliceToString(fs.Fstypename[:]),
		ReadOnly: fs.Flags&unix.MNT_RDONLY != 0,
		ID:       uint64(uint32(fs.Fsid.Val[0]))<<32 | uint64(uint32(fs.Fsid.Val[1])),
	}
	info.classify()
	if fs.Flags&unix.MNT_LOCAL == 0 {
		info.Remote = !info.Pseudo
	}
	return info, nil
}
