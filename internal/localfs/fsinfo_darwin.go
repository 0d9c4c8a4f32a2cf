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
		Type: unix.ByteSliceToString(fs.Fstypename[:]),
		ID:   uint64(uint32(fs.Fsid.Val[0]))<<32 | uint64(uint32(fs.Fsid.Val[1])),
	}
	info.setMacFlags(fs.Flags)
	return info, nil
}
